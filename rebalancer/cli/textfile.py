"""Files that others read while we write them: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from rebalancer.cli.logs import LOGGER


def write_textfile(path: Path, content: bytes) -> None:
    """Replace a metrics file in one step; that it cannot be written is a warning: the run is what counts."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            Path(name).chmod(0o644)  # the collector runs as somebody else
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        LOGGER.warning("cannot write metrics to %s: %s", path, error.strerror or error)
