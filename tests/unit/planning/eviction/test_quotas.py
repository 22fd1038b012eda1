"""What pods count for in quotas, and whether a quota has room for one more."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import quantities
from rebalancer.cluster.pod_classes import NO_OWNER, PodClass
from rebalancer.cluster.records import PodSpec
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.planning.eviction.quotas import Quotas, is_best_effort, usage
from tests.builders import a_node, a_recording
from tests.rows import rows

NAMES = ("cpu", "memory", "example.com/gpu")
AMOUNTS = st.integers(0, 5).map(str)
Amounts = dict[str, str]


def amounts() -> st.SearchStrategy[Amounts]:
    return st.dictionaries(st.sampled_from(NAMES), AMOUNTS, max_size=3)


def containers(*, init: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    each = st.fixed_dictionaries(
        {"resources": st.fixed_dictionaries({"requests": amounts(), "limits": amounts()})},
        optional={"restartPolicy": st.just("Always")} if init else {},
    )
    return st.lists(each, max_size=3)


def a_class(**spec: Any) -> PodClass:
    return PodClass("default", {}, NO_OWNER, msgspec.convert(spec, PodSpec), (), False)


def a_quota(hard: Amounts, used: Amounts, name: str = "small", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def quotas_of(*items: dict[str, Any]) -> Quotas:
    recording = a_recording(None, nodes=[a_node("a")], pods=[], resourcequotas=list(items))
    return Quotas(build_snapshot(recording))


def quotas(hard: Amounts, used: Amounts, **spec: Any) -> Quotas:
    return quotas_of(a_quota(hard, used, **spec))


def most_at_once(spec: dict[str, Any], field: str, name: str) -> Fraction | None:
    """The most that containers have at one moment, while each init container starts and then for good."""

    def of(item: dict[str, Any]) -> Fraction:
        return quantities.parse(item["resources"][field].get(name, "0"))

    everything = [*spec["containers"], *spec["initContainers"]]
    if not any(name in item["resources"][field] for item in everything):
        return None
    moments, sidecars = [Fraction(0)], Fraction(0)
    for item in spec["initContainers"]:
        moments.append(sidecars + of(item))
        if item.get("restartPolicy"):
            sidecars += of(item)
    return max(*moments, sidecars + sum(map(of, spec["containers"]), Fraction(0)))


@given(containers(init=False), containers(init=True), st.dictionaries(st.sampled_from(NAMES[:2]), AMOUNTS))
def test_a_pod_counts_for_the_most_that_it_has_at_one_moment_and_its_overhead(
    main: list[dict[str, Any]], init: list[dict[str, Any]], overhead: Amounts
) -> None:
    spec = {"containers": main, "initContainers": init}
    found = usage(msgspec.convert({**spec, "overhead": overhead}, PodSpec))
    for name in NAMES:
        more = quantities.parse(overhead.get(name, "0"))
        requested, limited = most_at_once(spec, "requests", name), most_at_once(spec, "limits", name)
        if requested is not None or name in overhead:
            assert found[f"requests.{name}"] == (requested or 0) + more
        if limited is not None and name in NAMES[:2]:
            assert found[f"limits.{name}"] == (limited + more if limited else 0)
    assert found["pods"] == found["count/pods"] == 1


def test_what_a_pod_asks_for_as_a_whole_goes_before_its_containers() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2"}}}],
        "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "7", "example.com/gpu": "1"}},
    }
    found = usage(msgspec.convert(spec, PodSpec))
    assert [found[name] for name in ("requests.cpu", "limits.cpu", "memory")] == [Fraction(5), 7, 1]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 4), st.integers(1, 3))
def test_a_quota_admits_exactly_what_is_left(hard: int, used: int, others: int, cores: int) -> None:
    pod = a_class(containers=[{"name": "a", "resources": {"requests": {"cpu": str(cores)}}}])
    known = quotas({"requests.cpu": str(hard)}, {"requests.cpu": str(used)})
    assert (known.lacking(pod, [pod] * others) == "") == (used + cores * (others + 1) <= hard)
    assert (known.lacking(pod, leaving=pod) == "") == (used <= hard)
    assert known.room(pod) == (
        max((hard - used) // cores, 0),
        f"quota small, {used} of {hard} requests.cpu used",
    )


def test_a_pod_that_a_quota_does_not_select_leaves_no_room_in_it_when_it_goes() -> None:
    known = quotas({"pods": "1"}, {"pods": "1"}, scopes=["BestEffort"])
    burstable = a_class(containers=[{"name": "a", "resources": {"requests": {"cpu": "1"}}}])
    idle = a_class(containers=[{"name": "a"}])
    assert known.lacking(idle, leaving=burstable)
    assert not known.lacking(idle, leaving=idle)
    assert not known.lacking(burstable)


def test_a_pod_with_resources_of_its_own_need_not_name_those_of_each_container() -> None:
    known = quotas({"limits.cpu": "9"}, {"limits.cpu": "0"})
    whole = a_class(containers=[{"name": "a"}], resources={"limits": {"cpu": "1"}})
    assert "container a does not say its limits.cpu" in known.lacking(a_class(containers=[{"name": "a"}]))
    assert not known.lacking(whole)


def test_only_cpu_memory_and_huge_pages_of_a_pod_as_a_whole_spare_its_containers_from_naming_theirs() -> None:
    known = quotas({"limits.cpu": "9"}, {"limits.cpu": "0"})

    def refused(resource: str) -> bool:
        whole = a_class(containers=[{"name": "a"}], resources={"limits": {resource: "1"}})
        return "container a does not say its limits.cpu" in known.lacking(whole)

    assert not any(map(refused, ("cpu", "memory", "hugepages-2Mi")))
    assert all(map(refused, ("ephemeral-storage", "example.com/gpu")))


def test_only_cpu_and_memory_make_a_pod_more_than_best_effort() -> None:
    def best_effort(**given_resources: Any) -> bool:
        return is_best_effort(a_class(containers=[{"name": "a", "resources": given_resources}]).spec)

    assert best_effort(requests={"example.com/gpu": "1", "cpu": "0"})
    assert not best_effort(limits={"memory": "1"})


def test_a_malformed_bound_admits_nothing() -> None:
    known = quotas({"pods": "many"}, {"pods": "0"})
    assert known.lacking(a_class(containers=[]))
    assert known.room(a_class(containers=[])) == (0, "quota small could not be read")
    assert known.without_room("default", "pods")


def test_a_quota_that_is_no_quota_admits_nothing_in_its_namespace_and_holds_up_no_other() -> None:
    damaged = {"metadata": {"name": "small", "namespace": "default"}, "spec": {"hard": 7}}
    known = quotas_of(damaged)
    pod = a_container(cpu="1")
    room = known.room(pod)
    assert known.lacking(pod).endswith("whether it has room is unknown")
    assert known.without_room("default", "count/replicasets.apps").endswith("is unknown")
    assert room is not None
    assert (room[0], "ResourceQuota default/small" in room[1]) == (0, True)
    assert known.without_room("shop", "count/replicasets.apps") == ""


@rows(
    "resource, refuses",
    [
        ("requests.cpu", False),
        ("persistentvolumeclaims", True),
        ("count/persistentvolumeclaims", True),
        ("requests.storage", True),
        ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", True),
    ],
)
def test_a_quota_of_claims_alone_refuses_pods_whose_volumes_are_made_with_them(
    resource: str, refuses: bool
) -> None:
    pod = a_class(
        containers=[{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
        volumes=[{"name": "data", "ephemeral": {}}],
    )
    known = quotas({resource: "9"}, {resource: "1"})
    assert ("it counts claims" in known.lacking(pod)) is refuses
    assert known.lacking(pod, leaving=pod) == ""
    assert known.lacking(a_container(cpu="1")) == ""


def test_a_bound_that_its_status_does_not_have_yet_is_named_and_leaves_no_room() -> None:
    small = a_quota({"pods": "5"}, {"pods": "1"})
    small["spec"]["hard"] = {"pods": "5", "requests.cpu": "50"}
    said = "quota small, an unknown part of 50 requests.cpu used"
    assert quotas_of(small).room(a_container(cpu="1")) == (0, said)


def a_container(**requests: str) -> PodClass:
    return a_class(containers=[{"name": "a", "resources": {"requests": requests}}])


def test_what_a_pod_asks_nothing_of_decides_nothing_and_what_follows_it_does() -> None:
    known = quotas(
        {"requests.cpu": "1", "requests.memory": "1"}, {"requests.cpu": "1", "requests.memory": "1"}
    )
    idle = a_container(cpu="0", memory="1")
    assert "in requests.memory" in known.lacking(idle)
    assert quotas({"requests.cpu": "1"}, {"requests.cpu": "1"}).room(a_container(cpu="0")) is None


def test_a_quota_says_for_which_pod_it_has_no_room_and_what_others_do_not_ask_for_takes_none() -> None:
    known = quotas({"requests.cpu": "2"}, {"requests.cpu": "1"})
    one = a_container(cpu="1")
    assert known.lacking(one, [a_class(containers=[{"name": "a"}])]) == ""
    assert "no room for a second one" in known.lacking(one, [one])
    assert known.lacking(one, [one]).endswith("1 of 2 used, and this wave makes 1 more beside it")
    assert known.lacking(a_container(cpu="2")).endswith("1 of 2 used")
    assert "no room for its replacement" in known.lacking(one, [one, one], leaving=one)


def test_a_quota_that_does_not_count_a_pod_hides_none_that_does() -> None:
    of_others = a_quota({"pods": "9"}, {"pods": "9"}, name="idle", scopes=["BestEffort"])
    small = a_quota({"pods": "5"}, {"pods": "2"})
    assert quotas_of(of_others, small).room(a_container(cpu="1")) == (3, "quota small, 2 of 5 pods used")


def test_a_further_object_of_a_kind_needs_room_that_is_known() -> None:
    resource = "count/replicasets.apps"
    full = f"quota small has no room for another one in {resource}"
    for used, said in (({resource: "1"}, full), ({}, full), ({resource: "0"}, "")):
        assert quotas({resource: "1"}, used).without_room("default", resource) == said
    assert quotas({"pods": "1"}, {"pods": "1"}).without_room("default", resource) == ""


def test_a_deadline_of_nothing_is_one_too() -> None:
    known = quotas({"pods": "0"}, {"pods": "0"}, scopes=["Terminating"])
    assert known.lacking(a_class(containers=[], activeDeadlineSeconds=0))
    assert not known.lacking(a_class(containers=[]))


def test_a_scope_of_priority_classes_selects_those_it_names_or_all_but_those() -> None:
    for operator, values, selected in (
        ("In", ["high"], {"high"}),
        ("NotIn", ["high"], {"low", ""}),
        ("Exists", [], {"high", "low"}),
        ("DoesNotExist", [], {""}),
    ):
        expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        known = quotas({"pods": "0"}, {"pods": "0"}, scopeSelector={"matchExpressions": [expression]})
        refused = {
            name
            for name in ("high", "low", "")
            if known.lacking(a_class(containers=[], priorityClassName=name))
        }
        assert refused == selected


@rows(
    "term, selected",
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaceSelector": {}}, True),
    ],
)
def test_a_scope_of_affinity_across_namespaces_selects_pods_whose_terms_name_namespaces(
    term: dict[str, Any], selected: bool
) -> None:
    known = quotas({"pods": "0"}, {"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    term = {"topologyKey": "zone", **term}
    for kind in ("podAffinity", "podAntiAffinity"):
        for rule in (
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
        ):
            pod = a_class(containers=[], affinity={kind: rule})
            assert bool(known.lacking(pod)) is selected
