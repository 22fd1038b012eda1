"""Files that are replaced as a whole, and what stands at a path.

A reader of a replaced file finds the old content or the new, also after a crash. Questions about a path never
fail: a name that is too long or a folder that may not be searched would end a command as a defect of ours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rebalancer.errors import InputError


@contextmanager
def refusing(what: str, where: object, hint: str = "") -> Iterator[None]:
    """What the system refuses in the block is refused as an InputError: ``what`` could not be done."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}", where=str(where), hint=hint) from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of ``path`` once it is complete and durable.

    When the block raises, the old file stays and nothing is left beside it. Raises OSError.
    """
    import tempfile  # noqa: PLC0415 - imports random and compression, and most commands write no file

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


def named(path: Path) -> str:
    """A path as text that any document can hold: bytes of it that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def may_exist(path: Path) -> bool:
    """Whether something stands at the path, or cannot be ruled out: whoever opens it finds out why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


# Whether something, a regular file or a folder is known to stand at a path; those of pathlib may fail.
is_there = os.path.exists
is_file = os.path.isfile
is_folder = os.path.isdir


def replace(path: Path, content: bytes) -> None:
    """Give a file new content. Raises OSError."""
    with replacing(path) as stream:
        stream.write(content)


def state_folder() -> Path | None:
    """The user's own folder for what runs leave, the XDG state folder; None for a user without a home."""
    configured = Path(os.environ.get("XDG_STATE_HOME") or "")
    if configured.is_absolute():
        return configured / "rebalancer"
    try:
        return Path.home() / ".local" / "state" / "rebalancer"
    except RuntimeError:  # a container runs as a number that no user has, and sets no HOME
        return None


def make_durable(folder: Path) -> None:
    """Write the folder's entries to disk; some file systems cannot, and then the renaming alone must do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
