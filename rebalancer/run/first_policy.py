"""A first policy for a cluster: what is seen there decides thresholds, sources and limits, with reasons.

A policy that fits another cluster moves nothing here, or too much. So thresholds are tried on the cluster
itself, from the usual one downwards, and the first with which a plan moves a pod is taken:

    cpu: mean 43 %, highest 74 %    80 % makes no node hot; 70 % makes one hot, and its pods land nowhere
    65 %                            two nodes are hot, and a plan moves three pods: that is the threshold
    coolTo 50 %                     15 points below it, and above the mean

Nothing is weakened to get a plan: pods stay protected as they are by default. Where no threshold moves a pod,
the policy keeps the usual one and says what stands in the way. It keeps that too where the load is taken from
requests, not measured: a node that is full of requests may be idle.

Then a plan is tried in which the busiest node is hot in cpu and in memory, to tell what would keep its pods:

    memory: highest 80 %    no threshold moves a pod: at 75 % SingleReplica keeps 80 % of the load
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.records import Service
from rebalancer.counting import counted
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.plugin_sources import watcher_addresses
from rebalancer.load.usage import RESOURCES
from rebalancer.observe.configuration import configurations_in
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import observe
from rebalancer.observe.recorded import recorded_state
from rebalancer.planning import other_deschedulers
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import Observation, PlannerOptions, PlanningInputs, SchedulerFacts
from rebalancer.planning.planner import Planner
from rebalancer.planning.remedies import unknown_gate
from rebalancer.planning.scheduler_facts import feature_gates
from rebalancer.planning.scheduler_pods import versions_of
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.policy.schedulers import ConfigMapKey
from rebalancer.policy.schema import API_VERSION, KIND, RebalancePolicy, Safety
from rebalancer.policy.units import format_duration
from rebalancer.profiles.types import DEFAULT_SCHEDULER_NAME, DEFAULTS_SOURCE, ExtensionPoint

if TYPE_CHECKING:
    from jinja2 import Template

_USUAL = 80  # percent of allocatable cpu above which a node is hot
_LOWEST = 30
_STEP = 5
_ABOVE_MEAN = 10  # points that a threshold is above the mean at least
_MAX_CANDIDATES = 8
_COOLING_POINTS = 15
_WHOLE_NODE = 100  # percent: the largest threshold of a policy
_SHARE_PER_RUN = 0.01  # of the pods that may move
_FEWEST_PER_RUN = 2
_MAX_SERVICES = 2
_BESIDE_PROMETHEUS = ("adapter", "alert", "exporter", "operator", "push")  # in names of other services
_PROMETHEUS_PORT = 9090
_MAX_SET_ASIDE = 5  # configurations of which is said why they are not named
_MAX_REASON = 300  # characters
_WIDTH = 80  # columns


class FirstPolicy(msgspec.Struct, frozen=True):
    """The text of a policy, and what a plan by it does now."""

    text: str
    moves: int


def _schedulers(inputs: PlanningInputs) -> Counter[str]:
    """How many pods that do not belong to their node have each schedulerName."""
    pods = inputs.snapshot.pods
    counts = Counter[str]()
    for index in pods.pod_class[pods.node >= 0].tolist():
        if pods.classes[index].owner.kind not in OF_THEIR_NODE:
            counts[pods.classes[index].scheduler_name] += 1
    return counts


class SeenScheduler(msgspec.Struct, frozen=True):
    """A scheduler of the cluster, as the policy writes it."""

    facts: SchedulerFacts
    place: ConfigMapKey | None  # where its configuration was found; None: nowhere
    pods: str  # how many pods have each of its schedulerNames, in words
    gates: Mapping[str, int] = {}  # that are on by default and could not be seen: how many pods they concern

    @property
    def sees_version(self) -> bool:
        """Whether its pods tell its version, which else is that of the API server."""
        return bool(versions_of(self.facts.pods))

    @property
    def recorded_in(self) -> str:
        """Where a configuration was found that the policy does not name, as of a recording; else empty."""
        configuration = self.facts.configuration
        is_named = self.place is not None or self.facts.settings.configured_by
        return "" if is_named or configuration.source == DEFAULTS_SOURCE else configuration.source

    @property
    def files(self) -> list[str]:
        """The files with which its pods are started, where no configuration was found."""
        if self.place is not None or (self.facts.configuration.text and self.facts.settings.configured_by):
            return []
        return sorted({path for pod in self.facts.pods for path in pod.configuration_files})


def _seen_schedulers(
    inputs: PlanningInputs, counts: Mapping[str, int], gates: Mapping[str, Mapping[str, int]]
) -> list[SeenScheduler]:
    """Those that the policy is to name: each that pods have, and the first of all where none has any."""
    seen: list[SeenScheduler] = []
    for facts in inputs.schedulers:
        names = [name for name in facts.configuration.scheduler_names if counts.get(name)]
        pods = ", ".join(f"{name} {counts[name]}" for name in names)
        seen.append(SeenScheduler(facts, facts.settings.config_map, pods, gates.get(facts.name, {})))
    return [scheduler for scheduler in seen if scheduler.pods] or seen[:1]


def first_policy(inputs: PlanningInputs, *, measured: bool, set_aside: Sequence[str] = ()) -> FirstPolicy:
    """The policy for a cluster; ``measured`` is whether its load was measured or taken from requests.

    It names the ConfigMaps that the policy of the inputs names, and says of others why it does not:
    ``set_aside``.
    """
    inputs, gates = _with_gates(inputs)
    facts = _facts(inputs, gates, measured=measured) | {"set_aside": set_aside}
    for threshold in (*_thresholds(facts), _USUAL):
        text = _written(facts, threshold)
        planner = _by_policy(inputs, text)
        plan = planner.plan()
        if plan.moves:
            break
    now = ""
    if not plan.moves:
        now = planner.explain_cluster().verdict
        now += _kept_at_any_threshold(inputs, facts)
    hot = sum(1 for node in plan.nodes if node.hot and (node.after is None or node.after.hot))
    header = {"plan": plan, "still_hot": hot, "now": now}
    return FirstPolicy(_written(facts | header, threshold), len(plan.moves))


def _with_gates(inputs: PlanningInputs) -> tuple[PlanningInputs, dict[str, dict[str, int]]]:
    """The inputs with the gates stated that could not be seen, and these by scheduler, with their pods.

    Where no pod of the scheduler is seen, as on a managed cluster, pods that such a gate concerns stay until
    the policy states it.
    """
    eviction = Planner(inputs, options=PlannerOptions(ignore_coverage=True)).prepared.eviction
    pods_of_class = Counter(inputs.snapshot.pods.pod_class.tolist())
    gates: dict[str, dict[str, int]] = {}
    for index, why in eviction.unpredictable.items():
        gate = unknown_gate(why)
        facts = inputs.scheduler_of.get(eviction.pods.classes[index].scheduler_name)
        if gate and facts is not None:
            of_scheduler = gates.setdefault(facts.name, {})
            of_scheduler[gate] = of_scheduler.get(gate, 0) + pods_of_class[index]
    schedulers = []
    for facts in inputs.schedulers:
        stated = {**facts.settings.feature_gates, **dict.fromkeys(gates.get(facts.name, ()), True)}
        told = replace(facts, settings=facts.settings.model_copy(update={"feature_gates": stated}))
        schedulers.append(replace(told, feature_gates=feature_gates(told)))
    return (replace(inputs, schedulers=tuple(schedulers)) if gates else inputs), gates


def _kept_at_any_threshold(inputs: PlanningInputs, facts: Mapping[str, Any]) -> str:
    """What would keep the pods of the busiest node, where it were hot; empty where that is not known."""
    if not facts["measured"] or not len(facts["cpu"]) or not len(facts["memory"]):
        return ""
    below = {name: _below_the_highest(facts[name]) for name in RESOURCES}
    levels = {name: percent for name, percent in below.items() if percent is not None}
    if not levels:
        return ""
    rule = {"utilization": levels, "coolTo": {name: max(1, level - _STEP) for name, level in levels.items()}}
    hot = {**_REQUIRED, "hotNodes": {"forRuns": 1, "any": [rule]}}
    plan = _by_policy(inputs, json.dumps(hot)).plan()
    if plan.moves or not plan.hot_count:
        return ""
    at = " or ".join(f"{level} % {name}" for name, level in levels.items())
    return f"; a lower threshold, such as {at}, would move nothing either: {plan.mostly_kept_by}"


def _below_the_highest(percent: FloatArray) -> int | None:
    """The first step below the busiest node; None where it is hardly busier than the mean of the nodes."""
    level = min(math.ceil(float(percent.max()) / _STEP) * _STEP - _STEP, _WHOLE_NODE)
    return level if level >= float(percent.mean()) + _ABOVE_MEAN else None


def _written(facts: Mapping[str, Any], threshold: int) -> str:
    """The policy, preceded by what a plan by it does now where that is known."""
    mean = round(facts["mean"] / _STEP) * _STEP + _STEP
    cool_to = max(threshold - _COOLING_POINTS, min(threshold - _STEP, mean))
    above = int(np.count_nonzero(facts["cpu"] > threshold))
    return _template().render(facts, threshold=threshold, cool_to=cool_to, above=above)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - no other question needs it

    environment = Environment(
        loader=PackageLoader("rebalancer.run", "."),
        autoescape=False,  # noqa: S701 - YAML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(comment=lambda text, indent: _comment(indent, text), json=json.dumps)
    environment.filters["gates"] = lambda names: json.dumps(dict.fromkeys(names, True))
    environment.globals.update(percent="{:.0f} %".format, counted=counted, duration=format_duration)
    return environment.get_template("first_policy.yaml.jinja")


def _by_policy(inputs: PlanningInputs, text: str) -> Planner:
    policy = parse_policy(text, "the suggested policy").policy
    # What it plans is only looked at.
    return Planner(replace(inputs, policy=policy), options=PlannerOptions(ignore_coverage=True))


def _thresholds(facts: Mapping[str, Any]) -> list[int]:
    """Percentages of cpu to try: the usual one, then those at which the busiest nodes are hot.

    A load that is only requested is no reason for a lower one: such nodes may be idle.
    """
    cpu = facts["cpu"]
    if not facts["measured"] or not len(cpu):
        return [_USUAL]
    lowest = max(_LOWEST, math.ceil((facts["mean"] + _ABOVE_MEAN) / _STEP) * _STEP)
    first = min(math.ceil(float(cpu.max()) / _STEP) * _STEP - _STEP, _USUAL - _STEP)
    return [_USUAL, *range(first, lowest - 1, -_STEP)][:_MAX_CANDIDATES]


def _watchers(inputs: PlanningInputs) -> list[str]:
    """The load-watchers that plugins of the schedulers read, and that answered."""
    return sorted(
        {
            address
            for scheduler in inputs.schedulers
            for address in watcher_addresses(scheduler.configuration)
            if address in scheduler.view.watchers
        }
        - {""}
    )


def _scores_by_pods(inputs: PlanningInputs) -> list[str]:
    """The schedulerNames whose profile scores nodes by the number of their pods."""
    return [
        profile.scheduler_name
        for scheduler in inputs.schedulers
        for profile in scheduler.configuration.profiles
        for name in profile.enabled(ExtensionPoint.SCORE)
        if name in scheduler.configuration.plugins
        and "pods" in scheduler.configuration.plugins[name].scored_resources
    ]


def _facts(
    inputs: PlanningInputs, gates: Mapping[str, Mapping[str, int]], *, measured: bool
) -> dict[str, Any]:
    """What the template says of the cluster."""
    load = inputs.load
    counts = _schedulers(inputs)
    # (nodes of which it is known,) percent of allocatable
    cpu, memory = (figures[~np.isnan(figures)] for figures in load.percent[load.known][:, :2].T)
    missing = sorted(name for name in counts if name not in inputs.scheduler_of)
    services = [
        (service.metadata, port)
        for service in inputs.snapshot.recording.records(SERVICES)
        if (port := _prometheus_port(service)) is not None
    ]
    services.sort(key=lambda metadata_and_port: (metadata_and_port[0].namespace, metadata_and_port[0].name))
    defaults = RebalancePolicy()
    share = math.ceil(counts.total() * _SHARE_PER_RUN)
    per_run = max(_FEWEST_PER_RUN, min(defaults.limits.per_run, share))
    return {
        "inputs": inputs,
        "at": times.render(inputs.now),
        "seen": _seen_schedulers(inputs, counts, gates),
        "watchers": _watchers(inputs),
        "by_pods": _scores_by_pods(inputs),
        "measured": measured,
        "cpu": cpu,
        "memory": memory,
        "mean": float(cpu.mean()) if len(cpu) else 0.0,
        # A load that a node has, as in the summary of ``nodes``.
        "p95": float(np.percentile(cpu, 95, method="inverted_cdf")) if len(cpu) else 0.0,
        "usual": _USUAL,
        "movable": counts.total(),  # pods that do not belong to their node
        "schedulers": counts,
        "missing": missing,
        "prometheus_services": services[:_MAX_SERVICES],
        "known": int(np.count_nonzero(load.known)),
        "beside": other_deschedulers.why_refused(inputs.snapshot, Safety()),
        "per_run": per_run,
        "defaults": defaults,
    }


def _prometheus_port(service: Service) -> int | None:
    """The port at which a service may be a Prometheus server; None where it is something else.

    A chart gives its name to the services of all that it watches, such as prometheus-kubelet, so a port that
    is not the usual one counts only where the name says what the service is.
    """
    name = service.metadata.name
    ports = [port.port for port in service.spec.ports or ()]
    if "prometheus" not in name or any(part in name for part in _BESIDE_PROMETHEUS):
        return None
    if _PROMETHEUS_PORT in ports:
        return _PROMETHEUS_PORT
    if not name.endswith(("prometheus", "prometheus-server")):
        return None
    return ports[0] if ports else _PROMETHEUS_PORT


def _comment(indent: int, text: str) -> str:
    """A comment in lines that fit a screen; names from the cluster in it stay on their lines."""
    safe = "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
    lead = " " * indent + "# "
    lines = textwrap.wrap(safe, _WIDTH - len(lead), break_on_hyphens=False)
    return "".join(f"{lead}{line}\n" for line in lines)


_REQUIRED: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
_REQUESTS: dict[str, Any] = {"load": {"sources": [{"requests": {}}]}}


def _naming(places: Sequence[ConfigMapKey], more: Mapping[str, Any] = MappingProxyType({})) -> LoadedPolicy:
    """A policy that names schedulers' configurations, and is the default one otherwise."""
    written: dict[str, Any] = {**_REQUIRED, **more}
    if places:
        written["scheduler"] = [
            {"configMap": {"namespace": place.namespace, "name": place.name, "key": place.key}}
            for place in places
        ]
    return parse_policy(json.dumps(written), "the suggested policy")


def suggest_policy(options: PlanOptions) -> FirstPolicy:
    """A first policy for the cluster of the options; where no load is measured, by the pods' requests.

    Of the scheduler configurations in the cluster it names those that serve a schedulerName which pods have;
    of two for one name the one that a pod mounts, else the one that serves more pods.
    """
    api = open_api(options)
    given = api is None or options.scheduler_config is not None or options.policy_path is not None
    places = () if api is None or given else configurations_in(api)
    alone = [_naming((place,)) for place in places]
    default = policy_of(options)
    default_by_requests = _naming((), _REQUESTS)
    unusable: dict[str, None] = {}

    def set_aside(error: InputError) -> None:
        unusable.setdefault(f"Not named: {error!s:.{_MAX_REASON}}")

    observation = observe(
        options, (default, default_by_requests, *alone), api, unusable=set_aside if places else None
    )
    state = recorded_state(observation.snapshot.recording)
    chosen, spare = _chosen(places, [_naming((place,), _REQUESTS) for place in places], observation)
    whys = (*spare, *unusable)[:_MAX_SET_ASIDE]

    def inputs_by(policy: LoadedPolicy, more: Mapping[str, Any]) -> PlanningInputs:
        return assemble(observation, _naming(chosen, more) if chosen else policy, state)

    try:
        inputs = inputs_by(default, {})
        if inputs.load.known.any():
            return first_policy(inputs, measured=True, set_aside=whys)
    except (InputError, UnreachableError):  # no source answered, as in a cluster without metrics-server
        pass
    return first_policy(inputs_by(default_by_requests, _REQUESTS), measured=False, set_aside=whys)


class _Serving(msgspec.Struct, frozen=True):
    """A configuration that serves schedulerNames of pods."""

    place: ConfigMapKey
    names: tuple[str, ...]
    pods: int
    is_mounted: bool

    @property
    def rank(self) -> tuple[bool, int]:
        return not self.is_mounted, -self.pods


def _chosen(
    places: Sequence[ConfigMapKey], policies: Sequence[LoadedPolicy], observation: Observation
) -> tuple[list[ConfigMapKey], list[str]]:
    """The configurations that serve other schedulerNames of pods than default-scheduler, each name once.

    And of those that are left over, why they are.
    """
    serving: list[_Serving] = []
    for place, policy in zip(places, policies, strict=True):
        with suppress(InputError):  # a configuration that cannot be used
            inputs = assemble(observation, policy, None)
            facts = inputs.schedulers[0]
            names = facts.configuration.scheduler_names
            counts = _schedulers(inputs)
            if any(counts[name] for name in names if name != DEFAULT_SCHEDULER_NAME):
                mounted = any(pod.mounts(place) for pod in facts.pods)
                serving.append(_Serving(place, names, sum(counts[name] for name in names), mounted))
    chosen: list[ConfigMapKey] = []
    spare: list[str] = []
    by_name: dict[str, ConfigMapKey] = {}
    for file in sorted(serving, key=lambda file: file.rank):
        twice = [name for name in file.names if name in by_name]
        if twice:
            spare.append(
                f"Not named: configmap {_in_words(file.place)} serves {', '.join(twice)} as well as "
                f"{_in_words(by_name[twice[0]])}"
            )
            continue
        chosen.append(file.place)
        by_name |= dict.fromkeys(file.names, file.place)
    return chosen, spare


def _in_words(place: ConfigMapKey) -> str:
    return f"{place.namespace}/{place.name} {place.key}"
