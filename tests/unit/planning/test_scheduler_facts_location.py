"""The scheduler whose life a run depends on is the one that places the plan's pods, not one nearby."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.scheduler_facts import LeaseName, PodSelection, SchedulerLocation, locate
from rebalancer.policy.schedulers import ConfigMapKey, SchedulerLease, SchedulerSettings
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.builders import a_snapshot

DEFAULT_LEASE = LeaseName("kube-system", "kube-scheduler")


def configuration(*profiles: str, election: str = "") -> str:
    names = "".join(f"- schedulerName: {name}\n" for name in profiles)
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        + (f"leaderElection: {election}\n" if election else "")
        + (f"profiles:\n{names}" if names else "")
    )


def a_scheduler_pod(namespace: str, image: str = "registry.k8s.io/kube-scheduler:v1.35.0") -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "name": f"scheduler-{namespace}", "uid": namespace},
        "spec": {"containers": [{"name": "scheduler", "image": image}]},
    }


def located(text: str, settings: SchedulerSettings | None = None, *pods: dict[str, Any]) -> SchedulerLocation:
    loaded = load_configuration(text, "config.yaml") if text else default_configuration()
    names = loaded.scheduler_names
    return locate(names, settings or SchedulerSettings(), loaded, a_snapshot(pods=pods))


@pytest.mark.parametrize(
    ("text", "lease"),
    [
        ("", DEFAULT_LEASE),
        (configuration(), DEFAULT_LEASE),
        (configuration("default-scheduler", "trimaran"), DEFAULT_LEASE),
        (
            configuration("trimaran", election="{resourceName: trimaran}"),
            LeaseName("kube-system", "trimaran"),
        ),
        (configuration("a", election="{resourceNamespace: ops}"), LeaseName("ops", "kube-scheduler")),
        (
            configuration(
                election="{resourceNamespace: openshift-kube-scheduler, resourceName: kube-scheduler}"
            ),
            LeaseName("openshift-kube-scheduler", "kube-scheduler"),
        ),
        (configuration("trimaran", election="{leaderElect: false, resourceName: trimaran}"), None),
        (configuration("default-scheduler", election="{leaderElect: false}"), None),
        # The Lease that such a configuration means by default is held by the cluster's default scheduler.
        (configuration("trimaran"), None),
        (configuration("trimaran", election="{leaderElect: true}"), None),
    ],
)
def test_the_lease_is_the_one_that_the_configuration_names(text: str, lease: LeaseName | None) -> None:
    found = located(text)
    assert found.lease == lease
    assert bool(found.why_no_lease) == (lease is None)


def test_a_lease_that_the_configuration_names_counts_alone() -> None:
    text = configuration("trimaran", election="{resourceName: trimaran}")
    found = located(text, None, a_scheduler_pod("kube-system"))
    assert (found.named_by, found.pods) == ("leaderElection of config.yaml", None)
    assert not located("", None, a_scheduler_pod("kube-system")).named_by


def test_the_lease_of_the_policy_counts_alone() -> None:
    settings = SchedulerSettings(
        lease=SchedulerLease(namespace="ops", name="ours"),
        config_map=ConfigMapKey(namespace="sched", name="trimaran-config"),
    )
    for text in (configuration("trimaran", election="{leaderElect: false}"), ""):
        found = located(text, settings, a_scheduler_pod("sched"))
        assert (found.lease, found.pods) == (LeaseName("ops", "ours"), None)


def test_the_pods_are_those_that_mount_the_configuration_of_the_policy() -> None:
    settings = SchedulerSettings(config_map=ConfigMapKey(namespace="sched", name="trimaran-config"))
    found = located(configuration("trimaran"), settings, a_scheduler_pod("kube-system"))
    assert found.pods == PodSelection(("sched",), "trimaran-config", without_default=False)


def test_otherwise_the_pods_are_looked_for_where_schedulers_were_seen() -> None:
    pods = (a_scheduler_pod("b"), a_scheduler_pod("a"), a_scheduler_pod("shop", "nginx:1"))
    assert located(configuration("trimaran"), None, *pods).pods == PodSelection(
        ("a", "b"), without_default=True
    )
    assert located("", None, *pods).pods == PodSelection(("a", "b"))
    assert located("", None).pods is None


def test_messages_name_every_scheduler_name_that_the_process_serves() -> None:
    assert located(configuration("trimaran", "batch", election="{resourceName: x}")).name == "batch, trimaran"
