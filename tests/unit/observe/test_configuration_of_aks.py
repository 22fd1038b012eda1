"""What users of AKS write for its scheduler is read by itself; elsewhere nothing is asked."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.observe.configuration import configuration_of_aks
from tests.builders import a_node
from tests.rows import rows
from tests.unit.execution.fake_api import Answer, Request, fake_api, not_found, refusal
from tests.unit.planning.builders import planning_inputs

PROFILES = [{"schedulerName": "node-binpacking-scheduler"}]
WRITTEN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Asked:
    """An API server that answers a GET of the object, and says whether AKS's API is installed."""

    def __init__(self, answer: object, *, installed: bool) -> None:
        self.answer = answer
        self.paths: list[str] = []
        self.installed = installed
        self.api, _ = fake_api(self.request)

    def request(self, request: Request) -> Answer:
        if request.path == "/apis":
            group = {"name": "aks.azure.com", "versions": [{"version": "v1alpha1"}]}
            return Answer(200, {"kind": "APIGroupList", "groups": [group] if self.installed else []})
        if request.path == "/apis/aks.azure.com/v1alpha1":
            resources = [{"name": "schedulerconfigurations"}]
            version = "aks.azure.com/v1alpha1"
            return Answer(200, {"kind": "APIResourceList", "groupVersion": version, "resources": resources})
        self.paths.append(request.path)
        if isinstance(self.answer, Answer):
            return self.answer
        named = {"kind": "SchedulerConfiguration", "metadata": {"name": "upstream"}}
        return Answer(
            200, self.answer if isinstance(self.answer, bytes) else {**named, **cast("Any", self.answer)}
        )


def nodes(**labels: str) -> Snapshot:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return planning_inputs([a_node("one", labels=named)]).snapshot


AKS = nodes(kubernetes_azure_com__cluster="MC_group")


def read(answer: object, snapshot: Snapshot = AKS, *, installed: bool = True) -> tuple[Any, Asked]:
    asked = Asked(answer, installed=installed)
    return configuration_of_aks(snapshot, asked.api), asked


def test_the_text_of_its_object_is_the_configuration() -> None:
    found, asked = read({"spec": {"rawConfig": WRITTEN}})

    assert (found.text, found.source) == (WRITTEN, "schedulerconfiguration upstream")
    assert asked.paths == ["/apis/aks.azure.com/v1alpha1/schedulerconfigurations/upstream"]


def test_profiles_of_the_first_preview_are_a_configuration_too() -> None:
    found, _ = read({"spec": {"profiles": PROFILES}})

    assert json.loads(found.text) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": PROFILES,
    }


def test_other_clusters_are_asked_nothing() -> None:
    assert read({}, nodes())[0] is None
    assert read({}, nodes())[1].paths == []


def test_without_such_an_object_the_defaults_hold(caplog: pytest.LogCaptureFixture) -> None:
    assert read(not_found("/apis/aks.azure.com/v1alpha1/schedulerconfigurations/upstream"))[0] is None
    assert read(Answer(404, b"404 page not found"), installed=False)[0] is None
    assert not caplog.records
    assert read(refusal(403, "may not get it"))[0] is None
    assert "is taken to have Kubernetes' defaults: " in caplog.text
    assert "may not get it" in caplog.text


@rows("answer", [b"[" * 10_000, {}, {"spec": 1}, {"spec": {"rawConfig": 1}}])
def test_what_is_no_such_object_is_refused_in_a_line(answer: object) -> None:
    with pytest.raises(InputError, match="schedulerconfiguration upstream"):
        read(answer)


def test_another_failure_is_not_taken_for_the_defaults() -> None:
    with pytest.raises(RequestRejectedError):
        read(refusal(410, "gone"))


@pytest.mark.parametrize("status", [404, 410, 302])
def test_what_is_not_the_api_servers_own_word_is_not_taken_for_the_defaults(status: int) -> None:
    with pytest.raises(RequestRejectedError):
        read(Answer(status, b"404 page not found"))
