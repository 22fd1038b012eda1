"""Where the state of earlier runs is kept: the same choice for every command, so that a plan is the run.

An option names a file or a ConfigMap. A run outside of a cluster keeps its state without one too, in a file
of the user that is named after the API server; the commands that only read use that file once it is there.
"""

from __future__ import annotations

import functools
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer import files
from rebalancer.errors import InputError
from rebalancer.load.services import runs_in_a_cluster
from rebalancer.redaction import without_secrets
from rebalancer.state.run_state import RunState

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.state.stores import StateStore

LOGGER = logging.getLogger(__name__)
_HOMELESS = "this user has no home folder, where the state of runs is kept"


def state_store(
    path: Path | None, config_map: str | None, api: RawApi | None, *, acts: bool = False
) -> StateStore | None:
    """The store that the options name; without them, outside of a cluster, the user's own file.

    A command that does not act uses that file only if it is there. Logs which state is used.
    """
    if path is None and config_map is None and (api is None or runs_in_a_cluster()):
        return None
    from rebalancer.state.stores import ConfigMapStore, FileStore  # noqa: PLC0415 - imports filelock

    if config_map is not None:
        assert api is not None  # refused with the options
        namespace, name = config_map.split("/")
        store: StateStore = ConfigMapStore(api, namespace, name)
        _say(f"the state of earlier runs is in {store.where}")
        return store
    if path is None:
        assert api is not None
        path = user_file(api.host)
        if path is None and acts:
            raise InputError(_HOMELESS, hint="name a file with --state, or set HOME")
        if path is None or (not acts and not files.may_exist(path)):
            return None
    new = "" if files.may_exist(path) else ", which does not exist yet: this is the first run that uses it"
    _say(f"the state of earlier runs is in {path}{new}")
    return FileStore(path) if api is None else FileStore(path, lambda: api.retries.run.stopped)


@functools.cache
def _say(what: str) -> None:
    """Log it once, however often the nodes are shown."""
    LOGGER.info("%s", what)


def user_file(host: str) -> Path | None:
    """The user's file for the runs on an API server; None for a user without a home."""
    folder = files.state_folder()
    address = without_secrets(host).lower().removeprefix("https://")
    cluster = re.sub(r"[^a-z0-9.-]+", "-", address).strip("-.") or "cluster"
    return None if folder is None else folder / f"{cluster[:200]}.json"


def known_state(
    path: Path | None, config_map: str | None, api: RawApi | None, *, recorded: bool = False
) -> RunState | None:
    """What earlier runs left; empty where it is yet to be written.

    None when nothing says where it is, and for a recorded cluster without that file: then a recorded state
    counts.
    """
    store = state_store(path, config_map, api)
    if store is None:
        return None
    found = store.load()
    return found if found is not None or recorded else RunState()
