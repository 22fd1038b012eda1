"""One invocation: the name that the program was started under, its state, its logs, and how it ends.

An installation brings the same program twice: as ``rebalancer``, and as ``kubectl-rebalance``, which kubectl
runs when somebody types ``kubectl rebalance``. Help must show a command that the user can type again.

Logs go to stderr, as text or as a JSON object a line; results never go there, logs never to stdout.

At the edge of the process every failure becomes one line on stderr and an exit code.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TextIO

import click
import msgspec

from rebalancer import files
from rebalancer.errors import ExitCode, RebalancerError
from rebalancer.redaction import each_text, without_secrets
from rebalancer.reporting.words import plain
from rebalancer.telemetry import current_fields

PROGRAM = "rebalancer"
_PLUGIN = "kubectl-rebalance"


def program_name() -> str:
    """What the user typed to start the program, as help shows it."""
    return _PLUGIN.replace("-", " ") if PurePath(sys.argv[0]).stem == _PLUGIN else PROGRAM


class Session(msgspec.Struct):
    """What the edge and the command share: global options and the exit code."""

    verbose: bool = False
    log_format: str = "text"
    exit_code: int = int(ExitCode.DONE)


LOGGER = logging.getLogger("rebalancer")


class TextFormatter(logging.Formatter):
    """``warning: message``; with a traceback only where one was logged."""

    def format(self, record: logging.LogRecord) -> str:
        """One safe line, then the traceback if there is one."""
        lines = [f"{record.levelname.lower()}: {plain(record.getMessage())}"]
        if record.exc_info:  # indented, so that no message in it looks like a line of ours
            lines += [f"  {plain(line)}" for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, what ``extra={'fields': …}`` adds, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of ASCII."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        # What is known of the work at hand, such as run, wave and pod, and then what the record itself says.
        fields = {**current_fields(), **(fields if isinstance(fields, dict) else {})}
        if fields:
            line |= {key: value for key, value in fields.items() if key not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(each_text(line, without_secrets), default=lambda value: without_secrets(str(value)))


class _QuietHandler(logging.StreamHandler[TextIO]):
    """Writes to the current stderr; ignores that it is closed or full."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore the failure."""


def set_up_logs(session: Session) -> None:
    """Send logs to stderr: ours from INFO, others' from WARNING; with -v each a level lower."""
    take_down_logs()
    handler = _QuietHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if session.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO if session.verbose else logging.WARNING)
    LOGGER.setLevel(logging.DEBUG if session.verbose else logging.INFO)
    logging.captureWarnings(True)


def take_down_logs() -> None:
    """Leave logging as it was found."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _QuietHandler)]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)
    LOGGER.setLevel(logging.NOTSET)
    logging.captureWarnings(False)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class OutputClosedError(Exception):
    """The reader of our output has closed it; click would turn a BrokenPipeError into a failure."""


def guarded(call: Callable[[], object], session: Session) -> int:
    """Run a program to its end and return its exit code; no exception gets past here.

    That is what ``call`` returns, if it is a number, else the exit code of the session.
    """
    set_up_logs(session)
    _print_anything()
    try:
        code = _exit_code(call, session)
        _leave_nothing_unwritten()
    except Exception as error:  # noqa: BLE001 - while the failure of the command was put into words
        return _defect(session, error)
    return code


def _exit_code(call: Callable[[], object], session: Session) -> int:
    try:
        result = call()
        sys.stdout.flush()
    except (BrokenPipeError, OutputClosedError):
        # The reader of our output has seen enough; what was done is done.
        _close_stdout()
        return session.exit_code
    except RebalancerError as error:
        return _fail(session, str(error), error.exit_code, error)
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):
            return _fail(session, "input ended early", ExitCode.BAD_INPUT, abort)
        return _fail(session, "interrupted", ExitCode.INTERRUPTED, None)
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError):
            error.show()
        return int(ExitCode.BAD_INPUT)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "rebalancer"
        hints = "; ".join(filter(None, (usage_hint(error), f"see: {command} --help")))
        message = f"{error.format_message().rstrip('.')} ({hints})"
        return _fail(session, " ".join(message.split()), ExitCode.BAD_INPUT, error)
    except click.ClickException as error:
        return _fail(session, error.format_message(), ExitCode.BAD_INPUT, error)
    except OSError as error:
        if is_closed(error):
            return session.exit_code
        return _of_the_system(session, error)
    except Exception as error:  # noqa: BLE001 - the edge of the process
        return _defect(session, error)
    return result if isinstance(result, int) else session.exit_code


def is_closed(error: OSError) -> bool:
    """Whether our output has no reader any more: its pipe was closed, or its terminal, which says EIO."""
    if error.errno != errno.EIO:
        return isinstance(error, BrokenPipeError)
    try:
        os.get_terminal_size(sys.stdout.fileno())
    except OSError as why:  # a disk may say EIO too, but a terminal that is there tells its size
        return why.errno == errno.EIO
    return False


def _of_the_system(session: Session, error: OSError) -> int:
    code = session.exit_code or int(ExitCode.BAD_INPUT)
    if error.errno not in _FULL:
        return _defect(session, error)
    _close_stdout()
    return _fail(session, f"cannot write the result: {error.strerror}", code, error)


def _defect(session: Session, error: Exception) -> int:
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    hint = "please report" if session.verbose else "please report; details with -v"
    return _fail(session, f"{message} ({hint})", ExitCode.INTERNAL, error)


def _fail(session: Session, message: str, code: int, error: BaseException | None) -> int:
    """Log a line, or one for each problem of an input, with the traceback only if details were requested."""
    apart = error.lines if isinstance(error, RebalancerError) and session.log_format == "text" else ()
    *others, message = apart or (message,)
    for other in others:
        LOGGER.error("%s", other)
    LOGGER.log(
        _INTERNAL if code == ExitCode.INTERNAL else logging.ERROR,
        "%s",
        message,
        exc_info=error if session.verbose else None,
        extra={"fields": {"exitCode": int(code)}},
    )
    return int(code)


_INTERNAL = logging.ERROR + 1
logging.addLevelName(_INTERNAL, "INTERNAL ERROR")


def _print_anything() -> None:
    """Write characters that a stream cannot encode as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _leave_nothing_unwritten() -> None:
    """Write what stdout still holds: where the interpreter fails to, it changes the exit code."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _close_stdout()


def _close_stdout() -> None:
    """Redirect stdout to nothing, so that the interpreter can flush it when it exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_OF_KUBECTL = {
    "-f": "--policy FILE",
    "--file": "--policy FILE",
    "--filename": "--policy FILE",
    "-=": "-v, which takes no number",
    "--v": "-v, which takes no number",
}
_WHOLE_PLAN = "run carries out the whole plan: limit it in the policy, under evictable or limits"
_RECORDED = "a recorded cluster cannot be changed; use: rebalancer plan --from"
# Options of other commands that a command lacks on purpose, and why.
_LEFT_OUT = {
    **{("run", name): _WHOLE_PLAN for name in ("-n", "--namespace", "-l", "--selector", "--field-selector")},
    ("run", "--hot"): _WHOLE_PLAN,
    ("run", "--from"): _RECORDED,
    ("serve", "--from"): "a recorded cluster does not change; use: rebalancer plan --from",
    ("agreement", "--from"): "it follows what a live cluster decides",
    ("serve", "--now"): "a service plans for the present; leave out --now",
}
_AFTER_THE_COMMAND = frozenset(
    {"--as", "--context", "--from", "--kubeconfig", "-n", "--namespace", "--policy", "--request-timeout"}
)
_EXTRA = re.compile(r"unexpected extra arguments? \(([^\s)]+)")


def usage_hint(error: click.UsageError) -> str:
    """What to do instead, e.g. ``did you mean --policy policy.yaml?``; empty if that is not known."""
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        if name in _AFTER_THE_COMMAND and error.ctx is not None and error.ctx.parent is None:
            return f"put it after the command: {program_name()} COMMAND {name} …"
        reason = _LEFT_OUT.get(((error.ctx.info_name if error.ctx else None) or "", name), "")
        return f"did you mean {_OF_KUBECTL[name]}?" if name in _OF_KUBECTL else reason
    if isinstance(error, click.BadOptionUsage) and error.option_name == "--dry-run":
        return "every dry run asks the API server; leave the value out"
    extra = _EXTRA.search(error.format_message())
    if extra is None or error.ctx is None:
        return ""
    options = {name for parameter in error.ctx.command.params for name in parameter.opts}
    path = extra[1]
    if path.endswith((".yaml", ".yml")) and "--policy" in options:
        return f"did you mean --policy {path}?"
    source = next((parameter for parameter in error.ctx.command.params if parameter.name == "source"), None)
    if error.ctx.params.get("source") is not None:  # what a shell makes of --from recorded/*
        if "pattern" not in (getattr(source, "help", None) or ""):
            return "--from takes one PATH"
        quoted = shlex.quote(str(Path(path).parent / "*"))
        return f"--from takes one PATH; for all of several quote the pattern: --from {quoted}"
    if "--from" in options and ("/" in path or files.is_there(Path(path))):
        return f"did you mean --from {path}?"
    return ""
