"""Where a RunState is kept between runs: a file, or a ConfigMap.

Two writers never overwrite each other, because nobody can write a state that he once read. A writer gives
the change he wants, and the store makes it to whatever is there at that moment, once or again:

    run A: update(add the move of web-1)     reads {}, writes {web-1}
    run B: update(add the move of api-7)     reads {}, its write comes too late and is refused,
                                             reads {web-1}, writes {web-1, api-7}
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rebalancer import files
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.client import (
    APPLY,
    MAX_ATTEMPTS,
    NotWrittenError,
    create_version,
    replace_version,
    update,
)
from rebalancer.cluster.live.failures import DENIED, NO_API_SERVER, RequestRejectedError
from rebalancer.errors import InputError, SafetyError, StopRequestedError, UnreachableError
from rebalancer.state.run_state import MAX_BYTES, RunState, bounded, decode, encode

KEY = "state.json"
_LABELS = {"app.kubernetes.io/managed-by": "rebalancer"}
_NO_FILE = "it is not a regular file"
_ANOTHER = "name another file with --state"
_LOCK_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_WRITE_SECONDS = 120.0  # for the state in the cluster, whatever comes in between


Change = Callable[[RunState], RunState]
"""Makes the next state from the one that is kept; may be called again with a newer one."""


class StateStore(Protocol):
    """Keeps a RunState between runs."""

    @property
    def where(self) -> str:
        """The file or object, as messages name it."""

    def load(self) -> RunState | None:
        """The state kept; None when there is none yet. Raises InputError when it cannot be used."""

    def update(self, change: Change, *, closing: bool = False) -> RunState:
        """Change what is kept at this moment, an empty state if there is none; returns what is kept then.

        ``closing`` says that it must be kept even after the run was asked to stop.
        """


class FileStore:
    """Keeps the state in a file that is replaced as a whole and locked while it is written."""

    def __init__(self, path: Path, stopped: Callable[[], bool] = lambda: False) -> None:
        """``stopped`` says that the program was asked to stop: it waits no longer for another one's lock.

        A link stays: the file that it leads to is locked and replaced.
        """
        self._path = path
        self._stopped = stopped

    @property
    def where(self) -> str:
        """The file."""
        return str(self._path)

    def load(self) -> RunState | None:
        """The state in the file; None when there is no file."""
        with files.refusing("cannot read the state", self._path):
            try:
                if not stat.S_ISREG(self._path.stat().st_mode):  # a pipe would be waited for without end
                    raise InputError(f"cannot read the state: {_NO_FILE}", where=self.where, hint=_ANOTHER)
                with self._path.open("rb") as stream:
                    content = stream.read(2 * MAX_BYTES + 1)
            except FileNotFoundError:
                return None
        return decode(content, str(self._path))

    def update(self, change: Change, *, closing: bool = False) -> RunState:
        """Change the file.

        Raises InputError, SafetyError when another process keeps it locked, or StopRequestedError.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - a plan never writes a state

        path = Path(os.path.realpath(self._path))
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        with files.refusing("cannot write the state", self.where):
            for _ in range(round(_LOCK_SECONDS / _LOOK_SECONDS)):
                with contextlib.suppress(Timeout), lock.acquire(timeout=_LOOK_SECONDS):
                    state = bounded(change(self.load() or RunState()))
                    files.replace(path, encode(state))
                    return state
                if self._stopped() and not closing:
                    raise StopRequestedError("asked to stop while another process locks it", where=self.where)
        raise SafetyError(
            f"the state is locked by another process for more than {_LOCK_SECONDS:.0f} s",
            where=self.where,
            hint=f"it holds {lock.lock_file}",
        )


class _StoredMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Stored(msgspec.Struct, frozen=True):
    metadata: _StoredMetadata = _StoredMetadata()
    data: dict[str, str] | None = None


class ConfigMapStore:
    """Keeps the state under one key of a ConfigMap, and whatever else it holds as it is.

    A write names the version that was read for it, and the API server refuses one that comes too late.
    """

    def __init__(self, api: RawApi, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name

    @property
    def where(self) -> str:
        """The object, as messages name it."""
        return f"configmap {self._namespace}/{self._name}"

    def load(self) -> RunState | None:
        """The state in the ConfigMap; None when there is no ConfigMap or it has no such key."""
        return self._state(self._read(self._api))

    def update(self, change: Change, *, closing: bool = False) -> RunState:
        """Change the state, creating the ConfigMap when absent.

        Raises SafetyError when others keep writing it, InputError when its namespace does not exist,
        RightsError and UnreachableError as they come.
        """

        api = (self._api.finishing() if closing else self._api).within(_WRITE_SECONDS)

        def attempt() -> RunState:
            stored = self._read(api)
            state = bounded(change(self._state(stored) or RunState()))
            self._write(api, stored, state)
            return state

        try:
            return update(api, f"write {self.where}", attempt)
        except NotWrittenError as error:
            if error.unanswered is not None:
                raise error.unanswered from error
            raise SafetyError(
                f"others changed the state {MAX_ATTEMPTS} times while it was written",
                where=self.where,
                hint="is a second rebalancer at work on this cluster without a lease?",
            ) from error
        except RequestRejectedError as error:
            if error.status != 422 or any(map(error.message.count, DENIED)):
                raise
            raise InputError(
                f"the API server refuses the state: {error.message}",
                where=self.where,
                hint="make the ConfigMap take it, or name another one with --state-config-map",
            ) from error

    def _read(self, api: RawApi) -> dict[str, Any] | None:
        try:
            body = api.find(f"read {self.where}", self._path(self._name))
            return None if body is None else msgspec.json.decode(body, type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise UnreachableError(
                f"the answer is not an object: {str(error)[:200]}", where=self.where, hint=NO_API_SERVER
            ) from error

    def _state(self, config_map: dict[str, Any] | None) -> RunState | None:
        data = (config_map or {}).get("data")
        text = data.get(KEY) if isinstance(data, dict) else None
        if text is None:
            return None
        if not isinstance(text, str):
            raise InputError("the state is not text", where=f"{self.where} {KEY}")
        return decode(text.encode(errors="replace"), f"{self.where} {KEY}")

    def _write(self, api: RawApi, config_map: dict[str, Any] | None, state: RunState) -> None:
        text = encode(state).decode()
        what = f"write {self.where}"
        if config_map is None:
            metadata = {"namespace": self._namespace, "name": self._name, "labels": _LABELS}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}
            hint = f"{APPLY}, or name another one with --state-config-map"
            stored = create_version(api, what, self._path(), body, namespace=self._namespace, hint=hint)
            self._check(stored, text, version_before="")
            return
        data = config_map.get("data")
        before = data.get(KEY) if isinstance(data, dict) else None
        body = {**config_map, "data": {**(data if isinstance(data, dict) else {}), KEY: text}}
        stored = replace_version(api, what, self._path(self._name), body)
        # An object that does not change keeps its version.
        self._check(
            stored, text, version_before="" if text == before else config_map["metadata"]["resourceVersion"]
        )

    def _check(self, stored: bytes, text: str, *, version_before: str) -> None:
        """Raise SafetyError unless the API server says that it stored this text, as a new version."""
        try:
            answer = msgspec.json.decode(stored, type=_Stored)
        except (ValueError, RecursionError) as error:
            raise UnreachableError(
                f"the answer is not an object: {str(error)[:200]}", where=self.where, hint=NO_API_SERVER
            ) from error
        if (answer.data or {}).get(KEY) != text:
            raise SafetyError(
                "the API server stored another state than was sent",
                where=self.where,
                hint="does an admission webhook change this ConfigMap?",
            )
        if answer.metadata.resource_version in ("", version_before):
            raise SafetyError(
                "the state was accepted, and not stored: its version is the one before",
                where=self.where,
                hint="is there a proxy before the API server that answers in its place?",
            )

    def _path(self, *name: str) -> str:
        return object_path("v1", self._namespace, "configmaps", *name)
