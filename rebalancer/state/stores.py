"""Where a RunState is kept between runs: a file, or a ConfigMap."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from rebalancer import files
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import RequestRejectedError
from rebalancer.cluster.live.updates import MAX_ATTEMPTS, NotWrittenError, update, write_version
from rebalancer.errors import InputError, SafetyError
from rebalancer.state.run_state import MAX_BYTES, RunState, bounded, decode, encode, merged

KEY = "state.json"
_LOCK_SECONDS = 30.0


class StateStore(Protocol):
    """Keeps a RunState between runs."""

    def load(self) -> RunState | None:
        """The state kept; None when there is none yet. Raises InputError when it cannot be used."""

    def save(self, state: RunState) -> RunState:
        """Keep a state; returns what is kept, which holds another writer's moves too if there was one."""


class FileStore:
    """Keeps the state in a file that is replaced as a whole and locked while it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> RunState | None:
        """The state in the file; None when there is no file."""
        try:
            with self._path.open("rb") as stream:
                content = stream.read(2 * MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(
                f"cannot read the state: {error.strerror or error}", where=str(self._path)
            ) from error
        return decode(content, str(self._path))

    def save(self, state: RunState) -> RunState:
        """Replace the file. Raises InputError, or SafetyError when another process keeps it locked."""
        from filelock import FileLock, Timeout  # noqa: PLC0415 - a plan never writes a state

        kept = bounded(state)
        lock = self._path.with_name(f".{self._path.name}.lock")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(lock, timeout=_LOCK_SECONDS):
                files.replace(self._path, encode(kept))
        except Timeout as error:
            raise SafetyError(
                f"the state is locked by another process for more than {_LOCK_SECONDS:.0f} s",
                where=str(self._path),
                hint=f"it holds {lock}",
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot write the state: {error.strerror or error}", where=str(self._path)
            ) from error
        return kept


class ConfigMapStore:
    """Keeps the state under one key of a ConfigMap, and whatever else it holds as it is.

    Two writers never overwrite each other: a write names the version it was made from, and one that
    came too late is merged with what is there now.
    """

    def __init__(self, api: RawApi, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._core = api.client.core
        self._loaded_version = ""

    @property
    def _where(self) -> str:
        return f"configmap {self._namespace}/{self._name}"

    def load(self) -> RunState | None:
        """The state in the ConfigMap; None when there is no ConfigMap or it has no such key."""
        item = self._read()
        self._loaded_version = _version(item)
        return self._state(item)

    def save(self, state: RunState) -> RunState:
        """Write the state, creating the ConfigMap when absent.

        Raises SafetyError when others keep writing it, RightsError and UnreachableError as they come.
        """
        kept = bounded(state)

        def attempt() -> RunState:
            nonlocal kept
            item = self._read()
            if item is not None and _version(item) != self._loaded_version:
                theirs = self._state(item)
                kept = merged(kept, theirs) if theirs is not None else kept
            self._loaded_version = _version(self._write(item, kept))
            return kept

        try:
            return update(self._api, f"write {self._where}", attempt)
        except NotWrittenError as error:
            if error.unanswered is not None:
                raise error.unanswered from error
            raise SafetyError(
                f"others changed the state {MAX_ATTEMPTS} times while it was written",
                where=self._where,
                hint="is a second rebalancer at work on this cluster without a lease?",
            ) from error
        except RequestRejectedError as error:
            if error.status != 422:
                raise
            raise InputError(
                f"the API server refuses the state: {error.message}",
                where=self._where,
                hint="is the ConfigMap immutable?",
            ) from error

    def _read(self) -> dict[str, Any] | None:
        try:
            body = self._api.get(
                f"read {self._where}", self._core.read_namespaced_config_map, self._name, self._namespace
            )
        except RequestRejectedError as error:
            if error.status == 404:
                return None
            raise
        return _object(body, self._where)

    def _state(self, item: dict[str, Any] | None) -> RunState | None:
        data = (item or {}).get("data")
        text = data.get(KEY) if isinstance(data, dict) else None
        if text is None:
            return None
        if not isinstance(text, str):
            raise InputError("the state is not text", where=f"{self._where} {KEY}")
        return decode(text.encode(errors="replace"), f"{self._where} {KEY}")

    def _write(self, item: dict[str, Any] | None, state: RunState) -> dict[str, Any]:
        text = encode(state).decode()
        what = f"write {self._where}"
        if item is None:
            body = _new(self._namespace, self._name, text)
            call = self._core.create_namespaced_config_map
            return _object(write_version(self._api, what, call, self._namespace, body), self._where)
        data = item.get("data")
        body = {**item, "data": {**(data if isinstance(data, dict) else {}), KEY: text}}
        call = self._core.replace_namespaced_config_map
        answer = write_version(self._api, what, call, self._name, self._namespace, body)
        return _object(answer, self._where)


def _new(namespace: str, name: str, text: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "rebalancer"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "data": {KEY: text},
    }


def _object(body: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"the answer is not an object: {str(error)[:200]}", where=where) from error


def _version(item: dict[str, Any] | None) -> str:
    metadata = (item or {}).get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""
