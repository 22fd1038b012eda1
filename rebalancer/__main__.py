"""``python -m rebalancer``, and the console script: the program, from its first line to its exit code."""

import signal


def start() -> None:
    """Run the program. Until it hears signals itself, Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rebalancer.cli.main import main  # noqa: PLC0415 - importing takes a while, and may be interrupted

    main()


if __name__ == "__main__":
    start()
