"""The Deployment of the service: the pod of the CronJob, kept alive and made to hand over in order."""

from __future__ import annotations

import copy

import click
import pytest

from rebalancer.cli.program import main
from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS
from tests.unit.manifests.documents import ACTIVE, BASE, SERVICE, Document, of_kind, pod_template, read

DEPLOYMENT = of_kind(SERVICE, "Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
OF_A_SERVICE = ("args", "ports", "livenessProbe", "readinessProbe")


def without_what_a_service_has(pod: Document) -> Document:
    found = copy.deepcopy(pod)
    del found["restartPolicy"]
    for name in OF_A_SERVICE:
        found["containers"][0].pop(name, None)
    return found


def test_its_pod_is_that_of_the_cron_job() -> None:
    cron_job = pod_template(of_kind(BASE, "CronJob"))

    assert without_what_a_service_has(POD) == without_what_a_service_has(cron_job)
    assert POD["restartPolicy"] == "Always"


def test_it_acts_with_the_lease_and_the_state_of_the_cron_job() -> None:
    (other,) = pod_template(read(ACTIVE / "cronjob-run.yaml"))["containers"]
    own = set(CONTAINER["args"]) - set(other["args"])

    assert own == {"serve", "--listen=:8080", "--act"}
    assert set(other["args"]) - set(CONTAINER["args"]) == {"run", "--output=json"}


def test_its_arguments_are_ones_the_program_takes() -> None:
    arguments = list(CONTAINER["args"])
    group = main.make_context("rebalancer", list(arguments), resilient_parsing=False, obj=None)
    command = main.get_command(group, "serve")

    assert isinstance(command, click.Command)
    command.make_context("serve", arguments[arguments.index("serve") + 1 :], parent=group)


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
def test_its_probes_ask_the_port_that_it_listens_on(probe: str) -> None:
    (port,) = CONTAINER["ports"]

    assert CONTAINER[probe]["httpGet"]["port"] == port["name"]
    assert f"--listen=:{port['containerPort']}" in CONTAINER["args"]


def test_an_update_ends_the_old_leader_when_the_new_replica_is_ready() -> None:
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert POD["terminationGracePeriodSeconds"] >= ANSWER_SECONDS + CLOSING_SECONDS


def test_selectors_find_its_pods_and_no_others() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]

    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert of_kind(SERVICE, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert of_kind(SERVICE, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_it_takes_the_place_of_the_cron_job() -> None:
    kustomization = read(SERVICE / "kustomization.yaml")

    assert "../active" in kustomization["resources"]  # its rights are those of runs
    (patch,) = kustomization["patches"]
    assert "kind: CronJob" in patch["patch"]
    assert "$patch: delete" in patch["patch"]
    assert kustomization["images"] == read(BASE / "kustomization.yaml")["images"]
