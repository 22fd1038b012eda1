"""Files that are replaced as a whole: a reader finds the old content or the new, also after a crash."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of ``path`` once it is complete and durable.

    When the block raises, the old file stays and nothing is left beside it. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    make_durable(path.parent)


def replace(path: Path, content: bytes) -> None:
    """Give a file new content. Raises OSError."""
    with replacing(path) as stream:
        stream.write(content)


def make_durable(folder: Path) -> None:
    """Write the folder's entries to disk; some file systems cannot, and then the renaming alone must do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
