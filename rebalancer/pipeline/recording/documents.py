"""The documents that a plan needs beside the cluster: configuration, load-watcher's answer, state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer.cluster.dumps.streams import read_bytes
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.load.service_addresses import runs_in_a_cluster
from rebalancer.pipeline.run_settings import RecordingOptions
from rebalancer.pipeline.scheduler.configuration import (
    ConfigurationText,
    configuration_text,
    load_with_plugins,
)
from rebalancer.pipeline.state_location import known_state
from rebalancer.policy import LoadedPolicy, LoadWatcherSource
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi

CONFIGURATION, WATCHER, STATE = "scheduler-config.yaml", "watcher.json", "state.json"
_MAX_DOCUMENT_BYTES = 64 << 20


def documents_from_files(options: RecordingOptions) -> dict[str, bytes]:
    """The documents that options give as files; InputError when one cannot be used."""
    documents: dict[str, bytes] = {}
    if options.watcher is not None:
        documents[WATCHER] = _checked(options.watcher, decode_watcher, "a load-watcher response")
    if options.state_path is not None:
        documents[STATE] = read_bytes(options.state_path, _MAX_DOCUMENT_BYTES)
        decode_state(documents[STATE], str(options.state_path))
    return documents


def state_document(options: RecordingOptions, api: RawApi | None) -> dict[str, bytes]:
    """The state of earlier runs where it is not given as a file; nothing when there is none."""
    if api is None or options.state_path is not None:
        return {}
    state = known_state(None, options.state_config_map, api)
    return {} if state is None else {STATE: encode_state(state)}


def _checked(path: Path, decode: Callable[[bytes], object], what: str) -> bytes:
    content = read_bytes(path, _MAX_DOCUMENT_BYTES)
    try:
        decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not {what}: {error}", where=str(path)) from error
    return content


def policy_documents(
    loaded: LoadedPolicy, options: RecordingOptions, api: RawApi | None, warn: Callable[[str], None]
) -> dict[str, bytes]:
    """The scheduler's configuration and load-watcher's answer, read from where the policy names them.

    A load-watcher that does not answer is a warning: without its document its figures are unknown.
    """
    documents: dict[str, bytes] = {}
    configuration = configuration_text(loaded, options.scheduler_config, api)
    if configuration is not None:
        documents[CONFIGURATION] = configuration.text.encode()
    if api is None or options.watcher is not None:
        return documents
    addresses = _watcher_addresses(loaded, configuration, warn)
    if len(addresses) > 1:
        warn(f"several load-watchers are named; only {addresses[0]} is recorded")
    for address in addresses[:1]:
        from rebalancer.load.load_watcher import fetch_watcher  # noqa: PLC0415 - imports urllib3

        try:
            documents[WATCHER] = fetch_watcher(api, address, inside=runs_in_a_cluster())
        except RebalancerError as error:
            warn(f"load-watcher is not recorded: {error}")
    return documents


def recorded_configuration(
    loaded: LoadedPolicy, documents: dict[str, bytes]
) -> SchedulerConfiguration | None:
    """The recorded configuration; None where there is none that can be used."""
    try:
        text = documents[CONFIGURATION].decode()
        return load_with_plugins(loaded, ConfigurationText(text, CONFIGURATION))
    except (KeyError, UnicodeDecodeError, InputError):
        return None


def _watcher_addresses(
    loaded: LoadedPolicy, configuration: ConfigurationText | None, warn: Callable[[str], None]
) -> list[str]:
    """The load-watchers that the policy and the scheduler's plugins read, each once, the policy's first."""
    found = [
        source.load_watcher.address
        for source in loaded.policy.load.sources
        if isinstance(source, LoadWatcherSource)
    ]
    if configuration is not None:
        try:
            parsed = load_with_plugins(loaded, configuration)
        except InputError as error:
            # A cluster is worth recording whatever its scheduler's configuration.
            warn(f"the scheduler's configuration is recorded, but cannot be used: {error}")
            return found
        found += [
            str(getattr(arguments, "watcher_address", ""))
            for profile in parsed.profiles
            for arguments in profile.arguments.values()
        ]
    return [address for address in dict.fromkeys(found) if address]
