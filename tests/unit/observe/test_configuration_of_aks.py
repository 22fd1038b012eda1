"""What users of AKS write for its scheduler is read by itself; elsewhere nothing is asked."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, RightsError
from rebalancer.observe.configuration import configuration_of_aks
from tests.builders import a_node
from tests.unit.planning.builders import planning_inputs

PROFILES = [{"schedulerName": "node-binpacking-scheduler"}]
WRITTEN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Asked:
    """An API server that answers a GET, or fails."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.paths: list[str] = []

    def get(self, _what: str, path: str) -> bytes:
        self.paths.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


def nodes(**labels: str) -> Snapshot:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return planning_inputs([a_node("one", labels=named)]).snapshot


AKS = nodes(kubernetes_azure_com__cluster="MC_group")


def read(answer: object, snapshot: Snapshot = AKS) -> tuple[Any, Asked]:
    asked = Asked(answer)
    return configuration_of_aks(snapshot, cast("RawApi", asked)), asked


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
    assert read(RequestRejectedError("none", status=404))[0] is None
    assert not caplog.records
    assert read(RightsError("may not get it"))[0] is None
    assert "is taken to have Kubernetes' defaults: may not get it" in caplog.text


@pytest.mark.parametrize("answer", [b"[" * 10_000, b"{}", {"spec": 1}, {"spec": {"rawConfig": 1}}])
def test_what_is_no_such_object_is_refused_in_a_line(answer: object) -> None:
    with pytest.raises(InputError, match="schedulerconfiguration upstream"):
        read(answer)


def test_another_failure_is_not_taken_for_the_defaults() -> None:
    with pytest.raises(RequestRejectedError):
        read(RequestRejectedError("gone", status=410))
