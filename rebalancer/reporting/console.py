"""The console that reports and progress are drawn on."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console


class ReportConsole(Console):
    """A console for hostile text: no markup, no emoji, no highlighting, and no exit of its own."""

    def __init__(
        self, stream: TextIO, *, force_terminal: bool | None = None, width: int | None = None
    ) -> None:
        super().__init__(
            file=stream,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
            force_terminal=force_terminal,
            width=width,
        )

    def on_broken_pipe(self) -> None:
        """Let BrokenPipeError pass: rich would end the process, in the middle of a run."""
        raise BrokenPipeError("the output was closed")
