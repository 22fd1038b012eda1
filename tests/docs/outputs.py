"""What the commands of the pages print, shown in the pages below each command.

``python -m tests.docs.outputs`` runs the commands of every page and writes what they print into it; a test
compares. What differs from one run to the next (times, digests, addresses) is written as if it were always
the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import WATCHER_NAMESPACE, WATCHER_PORT, WATCHER_SERVICE, hot_cluster
from tests.docs.article_clusters import ARTICLE_CLUSTERS
from tests.docs.blocks import PAGES, ROOT, Block, blocks, commands
from tests.waiting import present

MAX_LINES, MAX_COLUMNS = 18, 118  # of one command's output, that a page shows
_END = "\x1e"
_ALWAYS_DIFFERENT = (
    (r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "2026-11-22T12:00:00Z"),
    (r"sha256:[0-9a-f]{64}", "sha256:" + "0" * 64),
    (r"\b[0-9a-f]{32}\b", "0" * 32),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:6443"),
    (r"/tmp/[\w./-]+?/(?=[\w-]+(\.\w+)*\b)", ""),
    (r"(?m)^(  [a-z]+ +\d+) +\d+$", r"\1      100"),  # a kind, its objects and their version
    (r"\b\d+ moments? from", "3 moments from"),
    (r"\b\d+ s old when", "0 s old when"),
    (r"\b(at most \d+s old|just measured)", "just measured"),
    (r", \d+s old", ", 5s old"),
)


def page_cluster(page: str = "") -> Sandbox:
    """The cluster that a page names nodes and pods of: that of the demonstration, or its own."""
    if page in ARTICLE_CLUSTERS:
        return ARTICLE_CLUSTERS[page]()
    sandbox = Sandbox(hot_cluster(present()), ready_after=0.1, terminates_after=0.1)
    watcher = sandbox.watcher(lag_seconds=0.0)
    sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", watcher)
    return sandbox


@contextmanager
def a_folder_and_environment(hot: Sandbox, folder: Path) -> Iterator[dict[str, str]]:
    """What the commands of a page find: policies, examples, and the cluster of the demonstration."""
    for name in ("policies", "examples"):
        (folder / name).symlink_to(ROOT / name)
    yield {
        **os.environ,
        "KUBECONFIG": str(hot.write_kubeconfig(folder / "kubeconfig")),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(folder / "state"),
        "COLUMNS": "96",
    }


def outputs_of(block: Block, folder: Path, environment: dict[str, str]) -> list[str]:
    """What each command of a block prints; AssertionError where one fails."""
    script = "".join(f"{command}\nprintf '{_END}'\n" for command in commands(block))
    ended = subprocess.run(
        ["bash", "--norc", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, f"{block.where}\n{script}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout.split(_END)[:-1]


def shown(output: str) -> str:
    """The output as a page shows it: its first lines, without what is different each time."""
    for pattern, same in _ALWAYS_DIFFERENT:
        output = re.sub(pattern, same, output)
    lines = [line.rstrip() for line in output.splitlines()]
    more = ["…"] if len(lines) > MAX_LINES else []
    cut = [line if len(line) <= MAX_COLUMNS else f"{line[: MAX_COLUMNS - 1]}…" for line in lines[:MAX_LINES]]
    return "\n".join([*cut, *more]).strip("\n")


def with_outputs(block: Block, outputs: list[str]) -> str:
    """The text of a block with each command's output below it."""
    parts = []
    for command, output in zip(commands(block), outputs, strict=True):
        parts += [f"$ {command}", *([shown(output)] if shown(output) else [])]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write what the commands print into the pages that are named, or into all."""
    chosen = [page for page in PAGES if not sys.argv[1:] or page.name in sys.argv[1:]]
    for page in chosen:
        found = [block for block in blocks(page) if block.language == "console" and not block.why_not]
        if not found:
            continue
        with page_cluster(page.name) as hot, tempfile.TemporaryDirectory(prefix="pages-") as folder:
            content = page.read_text()
            with a_folder_and_environment(hot, Path(folder)) as environment:
                for block in found:
                    written = with_outputs(block, outputs_of(block, Path(folder), environment))
                    content = content.replace(f"```console\n{block.text}```", f"```console\n{written}```", 1)
            page.write_text(content)
            print(page.relative_to(ROOT))  # noqa: T201 - this is a program
    return 0


if __name__ == "__main__":
    sys.exit(main())
