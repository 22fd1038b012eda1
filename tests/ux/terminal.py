"""What a command prints on a terminal, as an SVG picture that needs no font and no network."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
EXAMPLE = ("--from", "examples/hot-cluster", "--policy", "examples/policy.yaml")

_ANSI = [(0, 0, 0), (160, 20, 20), (20, 120, 40), (150, 100, 0), (30, 80, 180), (130, 60, 150), (0, 120, 140)]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), [*_ANSI, (110, 119, 129)]),
    "dark": TerminalTheme((13, 17, 23), (230, 237, 243), [*_ANSI, (176, 184, 193)]),
}
_OF_A_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def printed(words: Sequence[str], columns: int, environment: dict[str, str] | None = None) -> str:
    """What ``rebalancer WORDS`` writes to a terminal of that width, colours included."""
    ended = subprocess.run(
        [sys.executable, "-m", "rebalancer", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "FORCE_COLOR": "1",
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            "LC_ALL": "C.UTF-8",
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not ended.returncode, ended.stderr
    return ended.stdout


def on_a_terminal(
    words: Sequence[str], columns: int, environment: dict[str, str], folder: Path = ROOT
) -> tuple[int, str]:
    """The exit code of ``rebalancer WORDS`` and all that a real terminal of that width is sent."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    shell = {name: value for name, value in os.environ.items() if name not in _OF_A_TERMINAL}
    process = subprocess.Popen(
        [sys.executable, "-m", "rebalancer", *words],
        cwd=folder,
        env={**shell, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # Linux says EIO once the last process has closed the terminal
        pass
    finally:
        os.close(ours)
        code = process.wait()
    return code, written.decode().replace("\r\n", "\n")


def picture(command: str, output: str, columns: int, theme: str) -> str:
    """A terminal with the command's line and what it printed."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold"), (command, "bold")))
    console.print(Text.from_ansi(output), soft_wrap=True)
    svg = console.export_svg(title="", theme=THEMES[theme], code_format=_FORMAT, font_aspect_ratio=0.6)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"
