"""Writes files that others read at the same time: they see the old content or the new one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from rebalancer.cli.logs import LOGGER


def write_textfile(path: Path, content: bytes) -> None:
    """Replace a metrics file in one step; a failure is only a warning, because the run matters more."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            Path(name).chmod(0o644)  # the collector runs as another user
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        LOGGER.warning("cannot write metrics to %s: %s", path, error.strerror or error)
