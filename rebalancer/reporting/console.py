"""The console that prints reports and progress, made safe for text that comes from a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.theme import Theme

if TYPE_CHECKING:
    from rich.progress import Progress

# A terminal's own yellow, green and cyan cannot be read on white. These are of the 256 fixed colours, and
# differ enough from black and from white. A terminal with fewer colours shows the nearest it has.
_COLOURS = {"red": 196, "green": 28, "yellow": 166, "cyan": 31}
COLOURS = {name: f"color({number})" for name, number in _COLOURS.items()}


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
            theme=Theme(
                {**COLOURS, **{f"bold {name}": f"bold {colour}" for name, colour in COLOURS.items()}}
            ),
        )

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002 - rich's own signature
        """Leave the cursor alone: it would stay hidden when a signal ends a command that shows progress."""
        return False

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError; rich would end the process, possibly in the middle of a run."""
        raise BrokenPipeError("the output was closed")


def step_bar(console: Console, noun: str) -> Progress:
    """A bar that counts steps towards a total, and goes when it is done."""
    from rich.progress import (  # noqa: PLC0415 - for terminals
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(noun, markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
