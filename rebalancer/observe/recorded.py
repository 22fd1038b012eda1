"""An observation as documents beside a recorded cluster: written once, and read back as it was.

    scheduler-config.yaml   the scheduler's configuration, as the policy of the recording names it
    scheduler-config-2.yaml     that of the second scheduler, and so on
    watcher.json            what load-watcher answered; also where somebody put it beside a dump by hand
    prometheus.json         what Prometheus answered, by address and question
    state.json              what earlier runs left
    version.json            what ``kubectl get --raw /version`` or ``kubectl version -o json`` printed
    observation.json        all else: the moment, the own pod, the API server, when the scheduler started

A dump that kubectl printed has no ``observation.json``: its moment is that of the newest metric, and one
answer of load-watcher stands for every address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import CONFIGURATIONS, Recording
from rebalancer.cluster.dumps.writer import ABOUT
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.load.prometheus.responses import DOCUMENT as PROMETHEUS
from rebalancer.load.prometheus.responses import RecordedResponses, decode_book
from rebalancer.load.raw_figures import ANY_ADDRESS, WATCHER, RawFigures
from rebalancer.planning.inputs import ApiServer, Observation, SchedulerLife, SchedulerStart
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.profiles.types import ConfigurationText
from rebalancer.state.run_state import RunState
from rebalancer.state.run_state import decode as decode_state
from rebalancer.state.run_state import encode as encode_state

CONFIGURATION = CONFIGURATIONS[0]
STATE = "state.json"
VERSION = "version.json"
OBSERVATION = "observation.json"


class _Configuration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    place: str = ""  # as ``place_of`` names it
    source: str = ""  # where it was written
    scores: dict[str, str] = {}  # of its extenders


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    now: float
    own_pod: str = ""
    server: ApiServer = ApiServer()
    configurations: list[_Configuration] = []  # in the order of their documents
    watcher: str = ANY_ADDRESS  # whose answer watcher.json is
    watchers: dict[str, msgspec.Raw] = {}  # further answers, by address
    missing: dict[str, str] = {}
    starts: dict[str, SchedulerStart] | None = None
    not_alive: dict[str, SchedulerLife] = {}


_decoder = msgspec.json.Decoder(_Document)


def documents_of(observation: Observation, state: RunState | None) -> dict[str, bytes]:
    """What is written beside the cluster."""
    documents: dict[str, bytes] = {}
    configurations: list[_Configuration] = []
    for place, written in observation.configurations.items():
        if written is not None:
            documents[CONFIGURATIONS[len(configurations)]] = written.text.encode()
            configurations.append(_Configuration(place, written.source, dict(written.scores)))
    figures = observation.figures
    first = next(iter(figures.watchers), ANY_ADDRESS)
    if figures.watchers:
        documents[WATCHER] = figures.watchers[first]
    if figures.prometheus.answers or figures.prometheus.failures:
        documents[PROMETHEUS] = figures.prometheus.encode()
    if state is not None:
        documents[STATE] = encode_state(state)
    document = _Document(
        now=observation.now,
        own_pod=observation.own_pod,
        server=observation.server,
        configurations=configurations,
        watcher=first,
        watchers={
            address: msgspec.Raw(content) for address, content in figures.watchers.items() if address != first
        },
        missing=dict(figures.missing),
        starts=None if observation.starts is None else dict(observation.starts),
        not_alive=dict(observation.not_alive),
    )
    documents[OBSERVATION] = msgspec.json.encode(document, order="deterministic")
    return documents


def observation_of(snapshot: Snapshot, own_pod: str) -> Observation:
    """What was recorded with a cluster; ``own_pod`` is this program's, where the recording names none.

    Its configurations are by the place that the policy of the recording named; of a dump that somebody put
    together by hand, by their number. Raises InputError for a broken document.
    """
    recording = snapshot.recording
    answers = recorded_answers(recording)
    watchers = {ANY_ADDRESS: recording.documents[WATCHER]} if WATCHER in recording.documents else {}
    document = _document(recording)
    if document is None:
        return Observation(
            snapshot=snapshot,
            figures=RawFigures(watchers, {}, answers),
            now=recorded_moment(snapshot),
            own_pod=own_pod,
            server=ApiServer(_recorded_version(recording)),
            configurations=_recorded_configurations(recording, []),
        )
    answered = {document.watcher: watchers[ANY_ADDRESS]} if watchers else {}
    answered |= {address: bytes(content) for address, content in document.watchers.items()}
    return Observation(
        snapshot=snapshot,
        figures=RawFigures(answered, document.missing, answers),
        now=document.now,
        own_pod=document.own_pod,
        server=document.server or ApiServer(),
        configurations=_recorded_configurations(recording, document.configurations),
        starts=document.starts,
        not_alive=document.not_alive,
    )


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    """The API server's answer, or what kubectl prints around it."""

    git_version: str = ""
    server_version: _Version | None = None


def _recorded_version(recording: Recording) -> str | None:
    """The version of the API server, such as ``v1.35.4``; None where somebody left it out."""
    content = recording.documents.get(VERSION)
    if content is None:
        return None
    try:
        version = msgspec.json.decode(content, type=_Version)
    except (ValueError, RecursionError) as error:
        where = f"{recording.source}/{VERSION}"
        hint = "write it with: kubectl get --raw /version"
        raise InputError(f"is not the version of an API server: {error}", where=where, hint=hint) from error
    return (version.server_version or version).git_version or None


def _document(recording: Recording) -> _Document | None:
    content = recording.documents.get(OBSERVATION)
    if content is None:
        return None
    try:
        document = _decoder.decode(content)
        if not 0 <= document.now <= times.LATEST:
            raise ValueError("now is not a time")
        return document
    except (ValueError, RecursionError) as error:
        where = f"{recording.source}/{OBSERVATION}"
        raise InputError(f"not what snapshot save writes: {error}", where=where) from error


def recorded_moment(snapshot: Snapshot) -> float:
    """When a cluster was recorded: the newest of its metrics, else the newest time of its nodes and pods."""
    recording = snapshot.recording
    moments = metric_times(recording)[-1:]
    if PROMETHEUS in recording.documents:
        moments.append(recorded_answers(recording).time)
    if not moments:
        times_of_objects = np.concatenate(
            [snapshot.pods.created, snapshot.pods.started, snapshot.nodes.ready_since]
        )
        moments = times_of_objects[~np.isnan(times_of_objects)].tolist()
    return max(moments, default=0.0)


def metric_times(recording: Recording) -> list[float]:
    """When the recorded metrics were taken, in order."""
    moments: set[float] = set()
    taken = [metrics.timestamp for metrics in recording.records(NODE_METRICS)]
    for text in (*taken, *(metrics.timestamp for metrics in recording.records(POD_METRICS))):
        with contextlib.suppress(ValueError):
            moments.add(times.parse(text))
    return sorted(moments)


def recorded_answers(recording: Recording) -> RecordedResponses:
    """What Prometheus answered when the cluster was recorded; an empty book when it was not asked."""
    content = recording.documents.get(PROMETHEUS)
    if content is None:
        return RecordedResponses()
    return decode_book(content, f"{recording.source}/{PROMETHEUS}")


def recorded_state(recording: Recording) -> RunState | None:
    """The state of earlier runs that was recorded with the cluster."""
    content = recording.documents.get(STATE)
    return decode_state(content, f"{recording.source}/{STATE}") if content is not None else None


def _recorded_configurations(
    recording: Recording, about: Sequence[_Configuration]
) -> dict[str, ConfigurationText]:
    """The schedulers' configurations that were recorded with a cluster; ``about`` is where they came from."""
    texts: dict[str, ConfigurationText] = {}
    for number, name in enumerate(CONFIGURATIONS):
        content = recording.documents.get(name)
        if content is None or not content.strip():  # what a shell leaves of a ConfigMap that is not there
            continue
        written = about[number] if number < len(about) else _Configuration(place=str(number))
        where = f"{recording.source}/{name}"
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8: {error.reason}", where=where) from error
        texts[written.place] = ConfigurationText(text, written.source or where, written.scores)
    return texts


def with_recorded(
    texts: dict[str, ConfigurationText | None],
    loaded: LoadedPolicy,
    recorded: Mapping[str, ConfigurationText | None],
) -> None:
    """Complete the texts of a policy, by ``place_of``, with those that were recorded with the cluster.

    What the recording has for the same place counts, else what it has at the same position: of the schedulers
    that the policy configures by ConfigMaps, or of its only one.
    """
    schedulers = loaded.policy.schedulers
    read = [settings for settings in schedulers if settings.config_map is not None]
    if not read:
        read = [settings for settings in schedulers if not settings.configured_by]
    by_position = dict(
        zip((place_of(scheduler, loaded.source) for scheduler in read), recorded.values(), strict=False)
    )
    for settings in schedulers:
        place = place_of(settings, loaded.source)
        written = texts[place]
        recorded_text = recorded.get(place) or by_position.get(place)
        if written is None or recorded_text is None:
            texts[place] = written or recorded_text
        else:
            texts[place] = replace(written, scores={**recorded_text.scores, **written.scores})


def about_recording(recording: Recording) -> dict[str, Any]:
    """Who recorded it, from where and when; empty for a dump made by kubectl."""
    try:
        about = msgspec.json.decode(recording.documents.get(ABOUT, b"{}"), type=dict[str, Any])
        if not 0 <= about.get("savedAt", 0) <= times.LATEST:
            raise ValueError("savedAt is not a time")
        return about
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"not what snapshot save writes: {error}", where=f"{recording.source}/{ABOUT}"
        ) from error


def unread_of(recording: Recording) -> dict[str, str]:
    """Why kinds were not read: as the recording says it, else that the dump lacks them."""
    reasons = about_recording(recording).get("unread")
    why_unread = (
        {str(plural): str(why) for plural, why in reasons.items()} if isinstance(reasons, dict) else {}
    )
    absent = {plural: why for plural, why in why_unread.items() if plural not in recording.listings}
    return {**recording.unread, **absent}
