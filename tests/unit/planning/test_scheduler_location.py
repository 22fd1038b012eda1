"""The scheduler whose life a run depends on is the one that places the plan's pods, not one nearby."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.scheduler_facts import with_pods
from rebalancer.planning.scheduler_location import (
    NAMED_BY_POLICY,
    LeaseName,
    PodSelection,
    SchedulerLocation,
    locate,
)
from rebalancer.policy.schedulers import ConfigMapKey, SchedulerLease, SchedulerPods, SchedulerSettings
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

DEFAULT_LEASE = LeaseName("kube-system", "kube-scheduler")


def configuration(*profiles: str, election: str = "") -> str:
    names = "".join(f"- schedulerName: {name}\n" for name in profiles)
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        + (f"leaderElection: {election}\n" if election else "")
        + (f"profiles:\n{names}" if names else "")
    )


def a_scheduler_pod(
    namespace: str,
    image: str = "registry.k8s.io/kube-scheduler:v1.35.0",
    *,
    owner: str = "ReplicaSet",
    flags: Sequence[str] = (),
    **spec: Any,
) -> dict[str, Any]:
    command = ["kube-scheduler", *flags]
    containers = [{"name": "scheduler", "image": image, "command": command}]
    return a_pod(
        f"scheduler-{namespace}",
        node="n",
        namespace=namespace,
        owner=owned_by(owner, "scheduler"),
        containers=containers,
        **spec,
    )


def located(text: str, settings: SchedulerSettings | None = None, *pods: dict[str, Any]) -> SchedulerLocation:
    loaded = load_configuration(text, "config.yaml") if text else default_configuration()
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    found = with_pods([SchedulerFacts(loaded, settings or SchedulerSettings())], snapshot)
    return locate(found[0], found, snapshot)


@rows(
    "text, lease",
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
        # By default such a configuration means the Lease that the cluster's default scheduler holds.
        (configuration("trimaran"), DEFAULT_LEASE),
        (configuration("trimaran", election="{leaderElect: true}"), DEFAULT_LEASE),
    ],
)
def test_the_lease_is_the_one_that_the_configuration_names(text: str, lease: LeaseName | None) -> None:
    found = located(text)
    assert found.lease == lease
    assert bool(found.why_no_lease) == (lease is None)


def test_a_lease_that_the_configuration_names_counts_alone() -> None:
    text = configuration("trimaran", election="{resourceName: trimaran}")
    found = located(text, None, a_scheduler_pod("kube-system"))
    assert found.named_by == "leaderElection of config.yaml"
    assert not located("", None, a_scheduler_pod("kube-system")).named_by


IN_FILE = "--config=/etc/kubernetes/scheduler-config.yaml"
OFF = configuration("trimaran", election="{leaderElect: false}")


@rows(
    "text, image, flags, lease",
    [
        (configuration("trimaran"), "kube-scheduler:v0.26.7", ["--leader-elect=false", IN_FILE], None),
        (configuration("trimaran"), "kube-scheduler:latest", ["--leader-elect=false", IN_FILE], None),
        (configuration("trimaran"), "kube-scheduler:v1.22.17", ["--leader-elect=F", IN_FILE], None),
        (configuration("default-scheduler"), "kube-scheduler:v1.35.0", ["--leader-elect=false"], None),
        (OFF, "kube-scheduler:v0.20.10", [IN_FILE], None),
        (OFF, "kube-scheduler:v0.26.7", ["--leader-elect", IN_FILE], DEFAULT_LEASE),
        (
            configuration("trimaran"),
            "kube-scheduler:v0.26.7",
            ["--leader-elect=false", "--leader-elect=true"],
            DEFAULT_LEASE,
        ),
        (
            configuration("trimaran"),
            "kube-scheduler:v0.26.7",
            ["--leader-elect-resource-name=own", "--leader-elect-resource-namespace", "ops"],
            LeaseName("ops", "own"),
        ),
        # Before 1.22 the flags do not count beside a file.
        (
            configuration("trimaran"),
            "kube-scheduler:v0.20.10",
            ["--leader-elect=false", IN_FILE],
            DEFAULT_LEASE,
        ),
        (configuration("trimaran"), "kube-scheduler:v1.20.10", ["--leader-elect=false"], None),
    ],
)
def test_flags_of_its_pods_count_over_the_configuration_where_the_scheduler_lets_them(
    text: str, image: str, flags: list[str], lease: LeaseName | None
) -> None:
    owner = "Node" if "default-scheduler" in text else "ReplicaSet"
    found = located(text, None, a_scheduler_pod("sched", image, owner=owner, flags=flags))
    assert found.lease == lease
    assert bool(found.why_no_lease) == (lease is None)


def test_where_flags_of_its_pods_differ_the_lease_counts_for_which_some_may_wait() -> None:
    pods = (
        a_scheduler_pod("a", flags=["--leader-elect=false"]),
        a_scheduler_pod("b", flags=["--leader-elect=true"]),
    )
    assert located(OFF, None, *pods).lease == DEFAULT_LEASE


def test_a_second_scheduler_that_wants_the_default_ones_lease_is_observed_apart_from_it() -> None:
    assert located(configuration("trimaran")).key != located("").key


def test_the_lease_of_the_policy_counts_alone() -> None:
    settings = SchedulerSettings(
        lease=SchedulerLease(namespace="ops", name="ours"),
        config_map=ConfigMapKey(namespace="sched", name="trimaran-config"),
    )
    for text in (configuration("trimaran", election="{leaderElect: false}"), ""):
        found = located(text, settings, a_scheduler_pod("sched"))
        assert (found.lease, found.named_by) == (LeaseName("ops", "ours"), NAMED_BY_POLICY)


def test_the_pods_are_those_that_mount_the_configuration_of_the_policy() -> None:
    settings = SchedulerSettings(config_map=ConfigMapKey(namespace="sched", name="trimaran-config"))
    volumes = [{"name": "config", "configMap": {"name": "trimaran-config"}}]
    for pods in ((), (a_scheduler_pod("kube-system"), a_scheduler_pod("sched", volumes=volumes))):
        found = located(configuration("trimaran"), settings, *pods)
        assert found.pods == PodSelection(("sched",), "trimaran-config")


def test_the_pods_that_the_policy_selects_are_the_schedulers_whatever_their_image() -> None:
    selector = SchedulerPods(namespace="ours", match_labels={"component": "custom-scheduler"})
    pod = a_scheduler_pod("ours", "cylonchau/custom-scheduler:v0.0.1")
    pod["metadata"]["labels"] = {"component": "custom-scheduler"}
    found = located(configuration("custom"), SchedulerSettings(pods=selector), pod)
    assert found.pods == PodSelection(("ours",), selector=selector)
    assert found.own_hosts == {"scheduler-ours"}


def test_otherwise_the_pods_are_looked_for_where_schedulers_were_seen() -> None:
    pods = (a_scheduler_pod("b"), a_scheduler_pod("a", owner="Node"), a_scheduler_pod("shop", "nginx:1"))
    assert located(configuration("trimaran"), None, *pods).pods == PodSelection(("b",))
    assert located("", None, *pods).pods == PodSelection(("a",), static=True)
    assert located("", None).pods is None


def test_messages_name_every_scheduler_name_that_the_process_serves() -> None:
    assert located(configuration("trimaran", "batch", election="{resourceName: x}")).name == "batch, trimaran"


def test_a_lease_is_compared_with_the_pods_of_the_scheduler_and_with_those_of_others() -> None:
    pods = (a_scheduler_pod("trimaran"), a_scheduler_pod("kube-system", owner="Node", hostNetwork=True))
    settings = SchedulerSettings(lease=SchedulerLease(name="kube-scheduler"))
    found = located(configuration("trimaran"), settings, *pods)
    assert found.competitor("n_0815") == "kube-system/scheduler-kube-system"
    assert not found.competitor("scheduler-trimaran_0815")
    assert not found.is_held_by_a_stranger("scheduler-trimaran_0815")
    assert found.is_held_by_a_stranger("somebody_0815")
    assert not located("", None, *pods).is_held_by_a_stranger("the-host-of-n_0815")
