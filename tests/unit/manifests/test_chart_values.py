"""Values that somebody may write: each gives objects that Kubernetes takes, or one line that says why not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rebalancer.documents.reading import parse
from tests.e2e import helm_program
from tests.unit.manifests.documents import Document
from tests.unit.manifests.rendering import NO_HELM
from tests.unit.manifests.test_schemas import CHART, check

pytestmark = pytest.mark.skipif(bool(NO_HELM), reason=NO_HELM or "never")
ALL: dict[str, Any] = {
    "kind": "Deployment",
    "act": True,
    "allowSteer": True,
    "allowSurge": True,
    **{name: {"enabled": True} for name in ("service", "serviceMonitor", "podMonitor", "prometheusRule")},
    "grafanaDashboard": {"enabled": True},
    "networkPolicy": {"create": True},
}


def rendered(folder: Path, values: dict[str, Any], release: str = "rebalancer") -> list[Document]:
    """The objects for values; a key that stands twice in one of them is an error, as for the API server."""
    path = folder / "values.yaml"
    path.write_text(json.dumps(values))
    options = (f"--values={path}", "--namespace=456")
    made = helm_program.helm("template", release, CHART, helm_program.IMAGE, *options, folder=folder)
    assert made.returncode == 0, made.stderr
    return [
        item
        for text in made.stdout.split("\n---\n")
        if (item := parse(text.removeprefix("---\n"), "objects").value)
    ]


def refusal(folder: Path, values: dict[str, Any], image: str = helm_program.IMAGE) -> str:
    """What Helm says of values that the chart does not take."""
    path = folder / "values.yaml"
    path.write_text(json.dumps(values))
    made = helm_program.helm("template", "rebalancer", CHART, f"--values={path}", image, folder=folder)
    assert made.returncode != 0
    return made.stderr


def test_an_image_has_to_be_named_and_the_refusal_says_how_to_build_one(tmp_path: Path) -> None:
    """No default: whoever owned its name would get the rights of the pods."""
    for kind in ("CronJob", "Deployment"):
        said = refusal(tmp_path, {"kind": kind}, image="--set=image.tag=mine")
        assert (
            "no image is published; build one (docker build $(image/bases.sh) -t REGISTRY/rebalancer:" in said
        )
        assert "and set image.repository=REGISTRY/rebalancer" in said


@pytest.mark.parametrize("more", [{"act": True}, ALL], ids=["CronJob", "Deployment"])
def test_names_that_look_like_numbers_stay_names(tmp_path: Path, more: dict[str, Any]) -> None:
    names = {"fullnameOverride": "789", "nameOverride": "1e3", "serviceAccount": {"name": "007"}}
    others = {"existingConfigMap": "12", "priorityClassName": "0x10", "evictionNamespaces": ["77"]}

    for values in (more, {**more, **names, **others}):
        objects = rendered(tmp_path, values, release="123")
        check([item for item in objects if "monitoring" not in item["apiVersion"]])
        found = {item["metadata"].get("namespace", "456") for item in objects}
        assert found <= {"456", "77"}, "names are text"


def test_further_labels_go_before_those_of_all_objects(tmp_path: Path) -> None:
    values = {"commonLabels": {"a": "all"}, "podLabels": {"a": "pod"}, "jobLabels": {"a": "job"}}
    objects = rendered(tmp_path, {**values, "cronJobLabels": {"a": "cron"}})

    (cron_job,) = (item for item in objects if item["kind"] == "CronJob")
    job = cron_job["spec"]["jobTemplate"]
    found = [at["metadata"]["labels"]["a"] for at in (cron_job, job, job["spec"]["template"])]
    assert found == ["cron", "job", "pod"]
    assert {item["metadata"]["labels"]["a"] for item in objects} == {"all", "cron"}


def test_labels_of_monitors_and_annotations_of_pods_stand_there_once(tmp_path: Path) -> None:
    labels = {"serviceMonitor": {"enabled": True, "additionalLabels": {"a": "mine"}}}
    objects = rendered(tmp_path, {**ALL, **labels, "commonLabels": {"a": "all"}})
    (monitor,) = (item for item in objects if item["kind"] == "ServiceMonitor")
    assert monitor["metadata"]["labels"]["a"] == "mine"

    rendered(tmp_path, {"podAnnotations": {"checksum/policy": "mine"}})


@pytest.mark.parametrize("kind", ["CronJob", "Deployment"])
def test_pods_may_go_without_the_annotations_that_they_have_by_default(tmp_path: Path, kind: str) -> None:
    """Maps of values are merged, so that null is the one way to say so."""
    objects = rendered(tmp_path, {"podAnnotations": None, "kind": kind, "existingConfigMap": "mine"})
    (found,) = (item["spec"] for item in objects if item["kind"] == kind)
    template = found["template"] if kind == "Deployment" else found["jobTemplate"]["spec"]["template"]

    assert not template["metadata"].get("annotations")


@pytest.mark.parametrize("name", ["commonLabels", "podLabels", "jobLabels", "cronJobLabels"])
def test_the_labels_by_which_pods_are_selected_are_the_charts_own(tmp_path: Path, name: str) -> None:
    said = refusal(tmp_path, {name: {"app.kubernetes.io/instance": "other"}})

    assert f"{name}: the chart sets the label app.kubernetes.io/instance itself" in said


def test_a_namespace_without_a_name_does_not_become_all_of_them(tmp_path: Path) -> None:
    assert "/evictionNamespaces/0" in refusal(tmp_path, {"act": True, "evictionNamespaces": [""]})
    assert "/evictionNamespaces" in refusal(tmp_path, {"act": True, "evictionNamespaces": ["a", "a"]})


def test_where_no_pod_may_be_evicted_no_deployment_may_be_restarted(tmp_path: Path) -> None:
    """Cluster-wide stay only what reads, what says why, and what changes nodes, which are in no namespace."""
    objects = rendered(tmp_path, {**ALL, "evictionNamespaces": ["shop", "web"]})
    bound: dict[str, set[str]] = {}
    for item in objects:
        if item["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            places = bound.setdefault(item["roleRef"]["name"].rpartition("-")[2], set())
            places.add(item["metadata"].get("namespace", ""))
    each = {"evict": {"shop", "web"}, "surge": {"shop", "web"}, "own": {"456"}}
    assert bound == {**each, "read": {""}, "events": {""}, "steer": {""}}


def test_all_that_the_api_server_would_refuse_is_refused_at_its_place(tmp_path: Path) -> None:
    values = {
        "schedulerConfigMaps": [7],
        "schedulerLeases": [True],
        "commonLabels": {"team": 7},
        "podAnnotations": {"a": True},
        "nodeSelector": {"a": True},
        "cmdOptions": {"top": [1]},
        "schedule": "",
    }
    said = refusal(tmp_path, values)

    for place in (
        "/schedulerConfigMaps/0",
        "/schedulerLeases/0",
        "/commonLabels/team",
        "/podAnnotations/a",
        "/nodeSelector/a",
        "/cmdOptions/top",
        "/schedule'",
    ):
        assert place in said


@pytest.mark.parametrize(
    "values",
    [
        {"policy": None},
        {"policy": {"scheduler": {"configMap": None, "lease": None}}},
        {"policy": {"execution": None}},
        {"cmdOptions": None, "commonLabels": None, "podLabels": None},
    ],
)
def test_what_somebody_empties_is_empty_and_no_error_of_a_template(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    for kind in ("CronJob", "Deployment"):
        check(rendered(tmp_path, {**values, "kind": kind, "act": True}))


def test_what_no_template_can_do_without_is_not_taken_away(tmp_path: Path) -> None:
    """Numbers became 0: a Job was killed at once, and a run had no time to finish its eviction."""
    names = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "maxDuration", "kind", "image"}
    said = refusal(tmp_path, dict.fromkeys(names), image="--set=suspend=true")

    (missing,) = re.findall(r"missing propert(?:y|ies):? (.*)", said)
    assert set(re.findall(r"'(\w+)'", missing)) == names


def test_a_large_number_is_an_option_as_it_was_written(tmp_path: Path) -> None:
    objects = rendered(tmp_path, {"cmdOptions": {"top": 1_000_000, "all": True, "ratio": 0.5}})

    (cron_job,) = (item for item in objects if item["kind"] == "CronJob")
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert {"--top=1000000", "--all", "--ratio=0.5"} <= set(container["args"])


@pytest.mark.parametrize(
    ("policy", "right"),
    [
        ({"execution": {"steer": "softTaint"}}, "allowSteer"),
        ({"strategies": {"consolidation": {"taintFor": "30m"}}}, "allowSteer"),
        ({"evictable": {"singleReplica": "surge"}}, "allowSurge"),
    ],
)
def test_a_policy_that_needs_a_right_is_refused_without_it(
    tmp_path: Path, policy: dict[str, Any], right: str
) -> None:
    """As each of its runs would be; where rights or the policy come from elsewhere nobody knows."""
    acts = {"act": True, "policy": policy}

    assert f"set {right}: true" in refusal(tmp_path, acts)
    for more in ({right: True}, {"act": False}, {"rbac": {"create": False}}, {"existingConfigMap": "own"}):
        assert rendered(tmp_path, {**acts, **more})


@pytest.mark.parametrize(
    ("values", "least"),
    [
        ({"policy": {"execution": {"maxDuration": "9m0.5s"}}}, 840),
        ({"policy": {"execution": {"maxDuration": "9m1s"}}}, 841),
        ({"policy": {"execution": {"waveTimeout": "1h30m"}}}, 5700),
        ({"maxDuration": "0.5h"}, 2100),
        ({"maxDuration": "1h", "existingConfigMap": "own"}, 3900),
    ],
)
def test_a_job_that_would_be_killed_within_a_wave_is_refused(
    tmp_path: Path, values: dict[str, Any], least: int
) -> None:
    acts = {"act": True, **values}
    taken = {"activeDeadlineSeconds": least}
    if least > 840:
        assert f"make it {least} or more" in refusal(tmp_path, acts)
        assert f"make it {least} or more" in refusal(tmp_path, {**acts, "activeDeadlineSeconds": least - 1})
    for more in (taken, {"act": False}, {"kind": "Deployment"}):
        assert rendered(tmp_path, {**acts, **more})


def test_a_maximum_of_a_policy_that_is_not_used_does_not_take_that_of_the_chart_away(tmp_path: Path) -> None:
    policy = {"execution": {"maxDuration": "3m"}}
    values = {"act": True, "existingConfigMap": "own", "policy": policy}
    (cron_job,) = (item for item in rendered(tmp_path, values) if item["kind"] == "CronJob")
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]

    assert "--max-duration=5m" in container["args"]


@pytest.mark.parametrize("consolidation", [True, False, {"taintFor": "0s"}, {"maxNodes": 1}])
def test_a_policy_that_needs_no_further_right_is_taken(tmp_path: Path, consolidation: Any) -> None:
    policy = {"strategies": {"consolidation": consolidation}, "execution": {"steer": "none"}}

    assert rendered(tmp_path, {"act": True, "policy": policy})


def test_each_scheduler_of_a_policy_may_be_read_where_its_configuration_and_its_lease_are(
    tmp_path: Path,
) -> None:
    first = {"configMap": {"namespace": "a", "name": "first"}}
    second = {"configMap": {"namespace": "b", "name": "second"}, "lease": {"name": "its-lease"}}
    for schedulers, names in (([first, second], {"first", "second", "its-lease"}), (first, {"first"})):
        objects = rendered(tmp_path, {"policy": {"scheduler": schedulers}})
        rules = [rule for item in objects if item["kind"] == "ClusterRole" for rule in item["rules"]]
        assert names <= {name for rule in rules for name in rule.get("resourceNames", ())}
