"""What needs Dask is left to ``make dask``, which installs it; the other tests do without."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("distributed") else ["test_dask.py", "test_places.py"]
