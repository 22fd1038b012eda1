"""``python -m rebalancer``, and the console script: the program, from its first line to its exit code."""

import signal

_BAD_INPUT = 2  # as rebalancer.errors has it, which is not imported yet
_INTERRUPTED = 130  # likewise


def start() -> None:
    """Run the program."""
    _end_when_asked()
    _outlive_hangups()
    _tell_of_crashes()
    _prepare_imports()
    _require_streams()
    from rebalancer.cli.program import main  # noqa: PLC0415 - importing takes a while, and may be interrupted

    try:
        main()
    except SystemExit as ended:
        _leave(ended)


def _require_streams() -> None:
    """Refuse to begin where a standard stream is closed: the next file to be opened would take its place."""
    import sys  # noqa: PLC0415 - not before signals are handled

    streams = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    for name, stream in streams.items():
        if stream is None:
            if sys.stderr is not None:
                sys.stderr.write(f"error: {name} is closed (redirect it to /dev/null)\n")
            sys.exit(_BAD_INPUT)


def _end_when_asked() -> None:
    """Let a signal end the program at once, until what acts has it set a request: ``rebalancer.signals``.

    What only reads holds nothing, so the line that is at work matters to nobody; files with credentials, and
    folders of our own, are removed as at every end. Without a handler the first process of a container would
    be sent no signal at all, and a Ctrl-C would print a traceback.
    """
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)


def _end(number: int, _frame: object) -> None:
    import atexit  # noqa: PLC0415 - as the next one, only at the end
    import os  # noqa: PLC0415

    signal.signal(number, signal.SIG_DFL)  # a second one ends what may hang from now on
    try:
        atexit._run_exitfuncs()
    finally:
        os._exit(_INTERRUPTED)


def _outlive_hangups() -> None:
    """Ignore SIGHUP in a service until it handles that: it asks to read the policy, which is still to come.

    So does the extender. The global options before the command's name take one of two words, or none.
    """
    import sys  # noqa: PLC0415 - not before signals are handled

    words = (word for word in sys.argv[1:] if not word.startswith("-") and word not in ("text", "json"))
    if next(words, "") in ("serve", "extender") and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _tell_of_crashes() -> None:
    """Let a fault in compiled code print the Python lines it came from; they hold names and no values.

    Otherwise the process ends by signal 11 and without a word, and nobody can say what has to be mended.
    """
    import contextlib  # noqa: PLC0415 - not before signals are handled
    import faulthandler  # noqa: PLC0415

    with contextlib.suppress(OSError, ValueError, RuntimeError):  # stderr is closed
        faulthandler.enable()


def _prepare_imports() -> None:
    """Spare work that numpy and Python do while a command's modules are imported, and that serves nobody."""
    import gc  # noqa: PLC0415 - not before signals are handled
    import os  # noqa: PLC0415

    # numpy would start a thread for each core of the node; none has work, as no large matrix is multiplied.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic would read the metadata of every package that is installed, to look for plugins of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")
    # Modules, classes and records live to the end. To search them for unused cycles after every 700 new
    # objects, as Python does by default, takes a tenth of the start; a plan of a small cluster ends with
    # 102,000 of them.
    gc.set_threshold(250_000)


def _leave(ended: SystemExit) -> None:
    """End the process with the program's exit code, without taking Python apart object by object.

    That would take a fifth of the time of a small plan. And Python may abort when it does so around a request
    that nobody waits for any more and that goes on in a thread of its own.
    """
    import atexit  # noqa: PLC0415 - as the next ones, only at the end
    import contextlib  # noqa: PLC0415
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    if not isinstance(ended.code, int):
        raise ended
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(ended.code)


if __name__ == "__main__":
    start()
