"""One invocation: the name that the program was started under, its state, and its logs.

An installation brings the same program twice: as ``rebalancer``, and as ``kubectl-rebalance``, which kubectl
runs when somebody types ``kubectl rebalance``. Help must show a command that the user can type again.

Logs go to stderr, as text or as a JSON object a line; results never go there, logs never to stdout.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TextIO

import msgspec

from rebalancer.errors import ExitCode
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
