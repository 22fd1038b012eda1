"""A plan is a function of three values, and its digest is over them: what changes it changes the digest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import observe
from rebalancer.observe.recorded import observation_of
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import (
    ApiServer,
    Observation,
    SchedulerLife,
    SchedulerStart,
    canonical,
    digest_of,
)
from rebalancer.planning.plan import encode
from rebalancer.planning.planner import Planner
from rebalancer.policy.policy_file import LoadedPolicy, load_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText, ExtensionPoint, PluginDescription
from rebalancer.state.run_state import RunState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

EXAMPLE = Path(__file__).parents[3] / "examples"
DEMO = load_policy(EXAMPLE / "policy.yaml")
TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def an_observation() -> Observation:
    """One in which no field has its default."""
    return Observation(
        snapshot=a_snapshot(nodes=[a_node("n1")], pods=[a_pod("web-1", node="n1")]),
        figures=RawFigures(
            {"http://w": b"{}"},
            {"http://v": "no answer"},
            RecordedResponses(
                5.0, {"http://p": {"instant up": b"{}"}}, {"http://p": {"instant down": "refused"}}
            ),
        ),
        now=1000.0,
        own_pod="ops/rebalancer-1",
        server=ApiServer("v1.35.0", "its certificate is not verified"),
        configurations={"configmap a/b c": ConfigurationText(TEXT, "a cluster")},
        assumed_neutral=("Mine",),
        installed_plugins=(PluginDescription("Theirs", frozenset({ExtensionPoint.SCORE})),),
        starts={"lease kube-system/kube-scheduler": SchedulerStart(900.0, "it acquired its lease")},
        not_alive={"lease kube-system/kube-scheduler": SchedulerLife(None, "nobody renews it")},
        live=True,
    )


def _with_figures(**changes: Any) -> Callable[[Observation], Observation]:
    return lambda found: replace(found, figures=replace(found.figures, **changes))


def _with_responses(**changes: Any) -> Callable[[Observation], Observation]:
    return lambda found: _with_figures(prometheus=replace(found.figures.prometheus, **changes))(found)


def _with(**changes: Any) -> Callable[[Observation], Observation]:
    return lambda found: replace(found, **changes)


def _with_recording(**changes: Any) -> Callable[[Observation], Observation]:
    def changed(found: Observation) -> Observation:
        recording = replace(found.snapshot.recording, **changes)
        return replace(found, snapshot=build_snapshot(recording))

    return changed


def _configured(text: str, source: str = "a cluster", **more: Any) -> Callable[[Observation], Observation]:
    return _with(configurations={"configmap a/b c": ConfigurationText(text, source, **more)})


def _living(life: SchedulerLife) -> Callable[[Observation], Observation]:
    return _with(not_alive={"lease kube-system/kube-scheduler": life})


OTHERS: Mapping[str, Callable[[Observation], Observation]] = {
    "Observation.snapshot": _with(
        snapshot=a_snapshot(nodes=[a_node("n1")], pods=[a_pod("web-2", node="n1")])
    ),
    "Observation.figures": _with(figures=RawFigures()),
    "Observation.now": _with(now=1001.0),
    "Observation.own_pod": _with(own_pod="ops/rebalancer-2"),
    "Observation.server": _with(server=ApiServer()),
    "Observation.configurations": _with(configurations={"configmap a/b c": None}),
    "Observation.assumed_neutral": _with(assumed_neutral=()),
    "Observation.installed_plugins": _with(installed_plugins=()),
    "Observation.starts": _with(starts=None),
    "Observation.not_alive": _with(not_alive={}),
    "RawFigures.watchers": _with_figures(watchers={"http://w": b"{ }"}),
    "RawFigures.missing": _with_figures(missing={"http://v": "refused"}),
    "RawFigures.prometheus": _with_figures(prometheus=RecordedResponses()),
    "RecordedResponses.time": _with_responses(time=6.0),
    "RecordedResponses.answers": _with_responses(answers={"http://p": {"instant up": b"[]"}}),
    "RecordedResponses.failures": _with_responses(failures={}),
    "ApiServer.version": _with(server=ApiServer("v1.34.0", "its certificate is not verified")),
    "ApiServer.unprotected": _with(server=ApiServer("v1.35.0", "")),
    "ConfigurationText.text": _configured(f"{TEXT}parallelism: 1\n"),
    "ConfigurationText.scores": _configured(TEXT, scores={"http://e": "scores: []"}),
    "SchedulerStart.at": _with(
        starts={"lease kube-system/kube-scheduler": SchedulerStart(901.0, "it acquired its lease")}
    ),
    "SchedulerStart.because": _with(
        starts={"lease kube-system/kube-scheduler": SchedulerStart(900.0, "its pod is ready")}
    ),
    "SchedulerLife.alive": _living(SchedulerLife(False, "nobody renews it")),
    "SchedulerLife.because": _living(SchedulerLife(None, "forbidden")),
    "SchedulerLife.says_what_to_do": _living(SchedulerLife(None, "nobody renews it", True)),
    "Recording.listings": _with_recording(
        listings=a_snapshot(nodes=[a_node("n2")], pods=[]).recording.listings
    ),
    "Recording.unread": _with_recording(unread={"services": "forbidden"}),
    "Recording.warnings": _with_recording(warnings=("a.yaml: not read",)),
}
# What decides nothing in a plan, for the reason that stands at the field or in ``inputs._parts``.
EQUAL: Mapping[str, Callable[[Observation], Observation]] = {
    "Observation.live": _with(live=False),
    "ConfigurationText.source": _configured(TEXT, "a file"),
    "Recording.source": _with_recording(source="elsewhere"),
    "Recording.documents": _with_recording(documents={"state.json": b"{}"}),
    "Recording.refused": _with_recording(refused=frozenset({"services"})),
}
NESTED = (
    *(Observation, RawFigures, RecordedResponses, ApiServer, ConfigurationText),
    *(SchedulerStart, SchedulerLife),
)


def digest(observation: Observation) -> str:
    return digest_of(observation, DEMO, None)


def test_each_field_of_an_observation_has_a_verdict() -> None:
    recording = type(an_observation().snapshot.recording)
    fields = {
        f"{owner.__name__}.{field}" for owner in (*NESTED, recording) for field in owner.__struct_fields__
    }
    assert fields == OTHERS.keys() | EQUAL.keys()


@rows("field", OTHERS)
def test_what_is_observed_otherwise_has_another_digest(field: str) -> None:
    observation = an_observation()
    assert digest(OTHERS[field](observation)) != digest(observation)


@rows("field", EQUAL)
def test_what_decides_nothing_is_left_out_of_the_digest(field: str) -> None:
    observation = an_observation()
    assert digest(EQUAL[field](observation)) == digest(observation)


def test_the_policy_and_the_state_count_in_every_setting() -> None:
    observation, policy = an_observation(), RebalancePolicy()
    stricter = policy.model_copy(update={"limits": policy.limits.model_copy(update={"per_run": 1})})
    found = {
        digest_of(observation, LoadedPolicy(item, "p.yaml", "digest"), state)
        for item in (policy, stricter)
        for state in (None, RunState(), RunState(hot_streaks={"n1": 1}))
    }
    assert len(found) == 6


def test_a_value_that_nobody_has_thought_of_is_refused() -> None:
    with pytest.raises(TypeError, match="say how it counts in a digest"):
        canonical(object())


def test_the_own_pod_is_part_of_what_a_plan_is_made_from() -> None:
    """It is never evicted, so two programs in different pods make different plans of one cluster."""
    options = PlanOptions(source=EXAMPLE / "hot-cluster")
    ours = {"POD_NAMESPACE": "shop", "POD_NAME": "api-7d9f-03"}
    found = [
        assemble(observe(options, (DEMO,), None, environment=environment), DEMO, None)
        for environment in ({}, ours, ours)
    ]
    plans = [Planner(inputs).plan() for inputs in found]
    assert plans[1].moves != plans[0].moves
    assert plans[1].inputs != plans[0].inputs
    assert encode(plans[1]) == encode(plans[2])


def test_a_policy_that_the_cluster_was_not_observed_for_is_refused_where_its_scheduler_is_unknown() -> None:
    snapshot = build_snapshot(DumpReader(EXAMPLE / "hot-cluster").read())
    observation = observation_of(snapshot, "")
    with pytest.raises(InputError, match="was not read"):
        assemble(replace(observation, configurations={}), DEMO, None)


def test_a_load_source_that_was_not_asked_is_unknown_and_never_idle() -> None:
    snapshot = build_snapshot(DumpReader(EXAMPLE / "hot-cluster").read())
    observation = replace(observation_of(snapshot, ""), configurations={"": None})
    document = {"load": {"sources": [{"prometheus": {"address": "http://prometheus:9090"}}]}}
    asking = LoadedPolicy(msgspec.convert(document, dict), "p.yaml", "")  # type: ignore[arg-type]
    policy = replace(asking, policy=RebalancePolicy.model_validate(document))
    with pytest.raises(InputError, match="not recorded"):
        assemble(observation, policy, None)
