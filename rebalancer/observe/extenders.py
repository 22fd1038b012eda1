"""Asks extenders of others what they would do with pods that could be evicted, as the scheduler asks them.

An extender is asked once for each class of pods, about the nodes that no plugin rejects whatever else runs
there: first which of them it admits, then how it scores those. Nothing of a pod is sent but what the
scheduler's own decisions go by: no annotation, no environment, no command. The pod has a name that no pod has
and no node, so that an extender which keeps books finds nothing to change.

    POST urlPrefix/filter      {"Pod": …, "Nodes": null, "NodeNames": ["a", "b"]}    it admits a
    POST urlPrefix/prioritize  {"Pod": …, "Nodes": null, "NodeNames": ["a"]}         it gives a 7

Everything is bounded, and what a bound leaves out is not known: its pods stay. What the extender itself says
is an error is ignored where the scheduler ignores it. That no answer came is not, nor one that is none: the
scheduler may have another, or read more out of it than is read here.

Source: kubernetes v1.34.4 pkg/scheduler/extender.go; kube-scheduler v0.34.4 extender/v1/types.go.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer import files, http
from rebalancer.addresses import checked_address
from rebalancer.cluster import records
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.counting import counted
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.http import RETRIED_STATUSES, NoAnswerError, TooLargeError, retry_after_seconds
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.planning.inputs import Observation
from rebalancer.planning.scheduler_facts import scheduler_facts
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.units import parse_duration
from rebalancer.profiles.types import (
    MAX_ANSWER,
    Extender,
    ExtenderAnswer,
    ExtenderAnswers,
    SchedulerConfiguration,
)
from rebalancer.redaction import without_secrets
from rebalancer.retries import Retry
from rebalancer.scheduling.extenders import digest_of_class
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState

if TYPE_CHECKING:
    import urllib3

    from rebalancer.cluster.live import RawApi

MAX_CLASSES = 500
MAX_NODES = 5_000
MAX_VERDICTS = 500_000  # on a node for a class: they are kept, and recorded
MAX_BYTES = 8 << 20  # of a request, and of an answer
_ANSWER_BYTES, _NODE_BYTES = 1 << 20, 1 << 10  # of an answer in names: so much, and as much for each of them
MAX_WORDS = 1 << 20  # characters of why nodes are rejected that are kept
MAX_SECONDS = 30.0  # for all that one extender is asked
_ATTEMPTS = 3
_TIMEOUT = "5s"  # DefaultExtenderTimeout
_REJECTED = "it rejects it"
_NEVER_EVICTED = frozenset({"DaemonSet", "Node"})  # kinds of owners


class _SilentError(Exception):
    """No answer came, or one that may not be the extender's: the scheduler may get another."""


class _RefusedError(Exception):
    """The extender's answer is an error; an ignorable one's is ignored, if it is one to the scheduler too."""

    def __init__(self, why: str, *, ignorable: bool = False) -> None:
        super().__init__(why)
        self.ignorable = ignorable


class _Class(msgspec.Struct, frozen=True):
    """Pods that are asked about, and the nodes that they could land on."""

    pod: PodClass
    nodes: tuple[str, ...]

    @property
    def body(self) -> Mapping[str, Any]:
        """One of the pods, as it waits for a node."""
        owner = self.pod.owner
        metadata = {"name": f"{owner.name or 'pod'}-asked-about"[:253], "namespace": self.pod.namespace}
        owners = [records.OwnerReference(owner.kind, owner.name, owner.uid, owner.api_version, True)]
        more = {"labels": self.pod.labels, "ownerReferences": owners if owner.kind else []}
        return {"metadata": {**metadata, **more}, "spec": self.pod.spec, "status": {"phase": "Pending"}}


def ask_extenders(
    observation: Observation, loaded: LoadedPolicy, configuration: SchedulerConfiguration, api: RawApi
) -> dict[str, ExtenderAnswers]:
    """What those answer that the policy has asked, by their urlPrefix. Raises StopRequestedError."""
    found: dict[str, ExtenderAnswers] = {}
    classes: list[_Class] | None = None
    for item in loaded.policy.scheduler.extenders:
        named = [extender for extender in configuration.extenders if item.ask and extender.url == item.url]
        if not named:
            continue
        if classes is None:
            classes = _classes(observation, loaded, configuration)
        try:
            if len(named) > 1:
                raise ValueError("the configuration names its urlPrefix twice")
            found[item.url] = _Asking(named[0], item.address or item.url, api).about(classes)
        except ValueError as error:
            found[item.url] = ExtenderAnswers(unasked=f"it was not asked: {error}")
    return found


def _classes(
    observation: Observation, loaded: LoadedPolicy, configuration: SchedulerConfiguration
) -> list[_Class]:
    """Those that the scheduler places and that could be evicted, those of most pods first."""
    snapshot = observation.snapshot
    state = ClusterState.of(snapshot, scheduler_facts(observation, loaded, configuration).release)
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    schedulers = {
        item.scheduler_name: make_scheduler(configuration, item, inputs) for item in configuration.profiles
    }
    counts = np.bincount(snapshot.pods.pod_class, minlength=len(snapshot.pods.classes)).tolist()
    found: list[tuple[int, str, _Class]] = []
    for index, count in enumerate(counts):
        pod = state.classes[index]
        if count and pod.scheduler_name in schedulers and pod.owner.kind not in _NEVER_EVICTED:
            admitting = np.flatnonzero(schedulers[pod.scheduler_name].admitting(state, index)).tolist()
            nodes = tuple(sorted(state.nodes.names[row] for row in admitting))
            found.append((-count, digest_of_class(pod), _Class(pod, nodes)))
    return [item for *_, item in sorted(found, key=lambda item: item[:2])]


class _Asking:
    def __init__(self, extender: Extender, address: str, api: RawApi) -> None:
        """ValueError, in words, where it cannot be asked as the scheduler asks it."""
        self._extender = extender
        self._api = api
        self._base = checked_address(address).rstrip("/")
        for verb in (extender.filter_verb, extender.prioritize_verb):
            checked_address(f"{self._base}/{verb}")
        self._seconds = min(parse_duration(str(extender.http_timeout or _TIMEOUT)) or 5.0, MAX_SECONDS)
        self._pool_options = _protection(extender)
        run = replace(api.retries.run, clock=api.retries.clock).within(MAX_SECONDS)
        self._retries = replace(api.retries, attempts=_ATTEMPTS, run=run, deadline_seconds=MAX_SECONDS)
        self._words = 0  # characters of why nodes are rejected
        self._nodes: Mapping[str, msgspec.Raw] = {}  # whole, where it does not know them itself

    def about(self, classes: Sequence[_Class]) -> ExtenderAnswers:
        """Its answers, until a bound is reached or one does not come."""
        asked = [item for item in classes if self._extender.is_interested(item.pod)]
        sets: dict[tuple[str, ...], int] = {}
        found: dict[str, ExtenderAnswer] = {}
        more, verdicts = {}, 0
        try:
            with http.pool(**self._pool_options) as pool:
                if asked and not self._extender.node_cache_capable:
                    self._nodes = _nodes_of(self._api)
                for item in asked:
                    verdicts += len(item.nodes)
                    if len(found) == MAX_CLASSES or verdicts > MAX_VERDICTS:
                        kinds = f"{len(found)} of {counted(len(asked), 'kind')} of pods"
                        more["unasked"] = f"it was asked about {kinds}, those with the most"
                        break
                    answer = self._answer(pool, item)
                    at = sets.setdefault(item.nodes, len(sets))
                    found[digest_of_class(item.pod)] = replace(answer, nodes=at)
        except StopRequestedError:
            raise
        except (_SilentError, RebalancerError) as error:
            more["unasked"] = f"it gave no answer when it was asked: {_line(error)}"
            if self._retries.run.seconds_left <= 0:
                kinds = f"{len(found)} of {counted(len(asked), 'kind')} of pods"
                more["unasked"] = f"it was asked for {MAX_SECONDS:g} s, which was enough for {kinds}"
        return ExtenderAnswers(found, tuple(sets), **more)

    def _answer(self, pool: urllib3.PoolManager, about: _Class) -> ExtenderAnswer:
        """About one class. Raises _SilentError."""
        extender, rejected, scores, left = self._extender, dict[str, str](), dict[str, int](), about.nodes
        if len(left) > MAX_NODES:
            return ExtenderAnswer(unusable=f"it is asked about {MAX_NODES} nodes at most")
        try:
            if extender.filter_verb and left:
                said = self._post(pool, extender.filter_verb, about, left)
                rejected = _rejected(said, left, by_name=extender.node_cache_capable)
        except _RefusedError as error:
            if not (extender.ignorable and error.ignorable):
                return ExtenderAnswer(unusable=f"its filter fails: {_line(error)}")
        self._words += sum(map(len, rejected.values()))
        if self._words > MAX_WORDS:
            rejected = dict.fromkeys(rejected, _REJECTED)
        left = tuple(name for name in left if name not in rejected)
        try:
            if extender.prioritize_verb and left:
                scores = _scores(self._post(pool, extender.prioritize_verb, about, left), left)
        except _RefusedError as error:
            if not (extender.ignorable and error.ignorable):
                return ExtenderAnswer(unusable=f"it gives no scores: {_line(error)}")
        if max(map(abs, scores.values()), default=0) * max(extender.weight, 1) * 10 > MAX_ANSWER:
            return ExtenderAnswer(unusable="its scores are beyond every measure")
        return ExtenderAnswer(rejected=rejected, scores=scores)

    def _post(self, pool: urllib3.PoolManager, verb: str, about: _Class, nodes: Sequence[str]) -> object:
        """The JSON that it answers. Raises _SilentError and _RefusedError."""
        question: dict[str, Any] = {"Pod": about.body, "Nodes": None, "NodeNames": nodes}
        if not self._extender.node_cache_capable:
            if gone := [name for name in nodes if name not in self._nodes]:
                raise _SilentError(f"node {gone[0]} is gone")
            question |= {"Nodes": {"items": [self._nodes[name] for name in nodes]}, "NodeNames": None}
        whole = self._nodes and verb == self._extender.filter_verb  # it may answer with nodes as they are
        most = MAX_BYTES if whole else min(MAX_BYTES, _ANSWER_BYTES + _NODE_BYTES * len(nodes))
        body = msgspec.json.encode(question)
        if len(body) > MAX_BYTES:
            raise _SilentError(f"a request would be larger than {MAX_BYTES >> 20} MiB")
        what = f"ask extender {self._base}/{verb}"

        def attempt() -> http.Answer | NoAnswerError:
            try:
                return http.request(
                    pool,
                    "POST",
                    f"{self._base}/{verb}",
                    headers=lambda: {**http.HEADERS, "Content-Type": "application/json"},
                    body=body.decode(),
                    max_bytes=most,
                    read_seconds=self._seconds,
                    whole_seconds=self._seconds,
                    deadline=self._retries.run,
                    what=what,
                )
            except NoAnswerError as error:
                return error

        try:
            answer = self._retries.until(what, attempt, _again)
        except TooLargeError as error:
            raise _SilentError(str(error)) from error
        if isinstance(answer, NoAnswerError):
            within = f" within {self._seconds:g} s" if answer.slow else ""
            raise _SilentError(f"none came{within} ({answer})") from answer
        if answer.status != 200:  # others than its own may come from in between, and be about us alone
            if answer.status != 500:
                raise _SilentError(f"HTTP {answer.status}")
            raise _RefusedError("HTTP 500", ignorable=True)
        try:
            return msgspec.json.decode(answer.body)
        except (ValueError, RecursionError) as error:
            raise _RefusedError(f"its answer is no JSON ({error})") from error


def _again(end: http.Answer | NoAnswerError) -> Retry | None:
    if isinstance(end, NoAnswerError):
        return None if end.slow else Retry(str(end))
    failing = end.status in RETRIED_STATUSES
    return Retry(f"HTTP {end.status}", retry_after_seconds(end.headers)) if failing else None


def _line(text: object) -> str:
    """What somebody else wrote, on one line that can be shown."""
    line = " ".join(without_secrets(str(text)).split())
    return "".join(filter(str.isprintable, line))[:200]


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw]


def _nodes_of(api: RawApi) -> Mapping[str, msgspec.Raw]:
    """The nodes as the API server has them."""
    body = api.ask("list nodes", "/api/v1/nodes", {"resourceVersion": "0"}).body
    try:
        items = msgspec.json.decode(body, type=_NodeList).items
        return {msgspec.json.decode(item, type=records.ApiObject).metadata.name: item for item in items}
    except (ValueError, RecursionError) as error:
        raise _SilentError(f"the nodes could not be read: {error}") from error


class _FilterResult(msgspec.Struct):
    error: str | None = None
    nodenames: list[str] | None = None
    nodes: dict[str, Any] | None = None
    failednodes: dict[str, str | None] | None = None
    failedandunresolvablenodes: dict[str, str | None] | None = None


class _Score(msgspec.Struct):
    host: str | None = None
    score: int | None = None

    @property
    def points(self) -> int:
        """ValueError for what is no score to Go."""
        if not -(1 << 63) <= (self.score or 0) < 1 << 63:
            raise ValueError("no score")
        return self.score or 0


def _rejected(said: object, nodes: Sequence[str], *, by_name: bool) -> dict[str, str]:
    """Why nodes are rejected, as an ExtenderFilterResult says it. Raises _RefusedError."""
    try:
        answer = msgspec.convert(_lower(said), _FilterResult)
        if answer.error:
            raise _RefusedError(answer.error, ignorable=True)
        names = answer.nodenames if by_name else None
        named = names is not None
        if names is None:
            items = _lower(answer.nodes or {}).get("items") or []
            names = [_lower(_lower(item)["metadata"])["name"] for item in items]
        passing = frozenset(names)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise _RefusedError("its answer is no ExtenderFilterResult") from error
    if unknown := sorted(map(str, passing.difference(nodes))):
        raise _RefusedError(f"it admits node {unknown[0]}, about which it was not asked", ignorable=named)
    if len(passing) < len(names):
        raise _RefusedError("it admits a node twice")
    whys = {**(answer.failednodes or {}), **(answer.failedandunresolvablenodes or {})}
    return {name: _line(whys.get(name) or _REJECTED) for name in nodes if name not in passing}


def _scores(said: Any, nodes: Sequence[str]) -> dict[str, int]:
    """By node, as a HostPriorityList says it; those of one node are added. Raises _RefusedError."""
    found: dict[str, int] = {}
    asked = frozenset(nodes)
    try:
        entries = msgspec.convert(said, list[Any] | None) or ()
        if len(entries) > 2 * MAX_NODES:
            raise ValueError("more than there are nodes")
        for entry in msgspec.convert([_lower(entry) for entry in entries], list[_Score]):
            if entry.host in asked:
                found[entry.host] = found.get(entry.host, 0) + entry.points
    except (AttributeError, TypeError, ValueError) as error:
        raise _RefusedError("its answer is no HostPriorityList") from error
    return found


def _lower(value: Any) -> dict[str, Any]:
    """A JSON object by keys in lower case, as Go reads them; AttributeError for anything else."""
    return {key.lower(): item for key, item in value.items()}


def _protection(extender: Extender) -> dict[str, Any]:
    """How connections are protected, as the scheduler does; ValueError for what it alone has."""
    settings = extender.tls_config or {}
    if not isinstance(settings, Mapping):
        raise ValueError("its tlsConfig is no mapping")
    if other := sorted({key for key in settings if settings[key]} - {"insecure", "caFile", "caData"}):
        raise ValueError(f"its tlsConfig has {other[0]}")
    file, data = settings.get("caFile"), settings.get("caData")
    if file and not files.is_file(Path(str(file))):  # nor read what has no end
        raise ValueError("caFile of its tlsConfig is no file here")
    if settings.get("insecure") or (extender.enable_https and not (file or data)):
        return {"verify": False}
    if data:
        return {"ca_cert_data": b64decode(str(data)).decode()}
    return {"ca_certs": file} if file else {}
