"""The console that prints reports and progress, made safe for text that comes from a cluster."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console


class ReportConsole(Console):
    """A console that interprets nothing in its text (markup, emoji, numbers) and never ends the process."""

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
        """Raise BrokenPipeError; rich would end the process, possibly in the middle of a run."""
        raise BrokenPipeError("the output was closed")
