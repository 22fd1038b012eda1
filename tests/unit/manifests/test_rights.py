"""The rights in k8s/: as many as are needed, and not one more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rebalancer.cluster.kinds import KINDS, METRICS
from tests.kubernetes_api.schemas import VERSIONS, properties_of
from tests.rows import rows
from tests.unit.manifests.documents import (
    ACTIVE,
    BASE,
    ROOT,
    VERBS_THAT_READ,
    grants,
    of_kind,
    read,
    resources,
    rules,
)

READ_BY_NAME = {
    ("", "configmaps", "get", ("scheduler-config", "custom-scheduler")),
    ("aks.azure.com", "schedulerconfigurations", "get", ("upstream",)),
    ("coordination.k8s.io", "leases", "list", ("kube-scheduler",)),
}
LISTED: set[tuple[str, str, str, tuple[str, ...]]] = {
    (kind.group, kind.resource or kind.plural, "list", ()) for kind in KINDS
}
# The Metrics API knows no WATCH.
WATCHED: set[tuple[str, str, str, tuple[str, ...]]] = {
    (kind.group, kind.resource or kind.plural, "watch", ()) for kind in KINDS if kind not in METRICS
}


EVERYTHING = grants(rules(BASE)) | grants(rules(ACTIVE)) | grants(rules(ACTIVE, "Role"))


def test_every_kind_we_read_may_be_listed_and_watched() -> None:
    assert grants(rules(BASE)) >= LISTED | WATCHED


def test_no_right_to_read_is_more_than_needed() -> None:
    assert grants(rules(BASE)) == LISTED | WATCHED | READ_BY_NAME


def test_what_the_api_server_serves_may_be_read_and_no_other_path() -> None:
    paths = [(rule["nonResourceURLs"], rule["verbs"]) for rule in rules(BASE) if "nonResourceURLs" in rule]
    assert paths == [(["/api/v1", "/apis", "/apis/*"], ["get"])]
    assert not [rule for rule in rules(ACTIVE) if "nonResourceURLs" in rule]


def test_the_cron_job_as_shipped_can_only_read() -> None:
    assert {verb for _, _, verb, _ in grants(rules(BASE))} <= VERBS_THAT_READ


def test_acting_adds_evictions_events_and_reading_single_pods() -> None:
    assert grants(rules(ACTIVE)) == {
        ("", "pods/eviction", "create", ()),
        ("", "pods", "get", ()),
        ("events.k8s.io", "events", "create", ()),
    }


def test_of_what_others_wrote_only_the_lease_and_the_state_may_be_changed() -> None:
    """Events above all: with the right to update them anybody's could be rewritten."""
    changing = {right for right in EVERYTHING if right[2] not in VERBS_THAT_READ | {"create"}}
    assert {(resource, names) for _, resource, _, names in changing} == {
        ("leases", ("rebalancer",)),
        ("configmaps", ("rebalancer-state",)),
    }


def test_only_the_component_for_surge_may_patch_and_only_deployments() -> None:
    surge = grants(rules(ROOT / "k8s" / "components" / "surge"))
    assert surge == {("apps", "deployments", "get", ()), ("apps", "deployments", "patch", ())}


def test_lease_and_state_are_limited_to_their_names_where_rbac_can() -> None:
    assert grants(rules(ACTIVE, "Role")) == {
        ("coordination.k8s.io", "leases", "get", ("rebalancer",)),
        ("coordination.k8s.io", "leases", "update", ("rebalancer",)),
        ("coordination.k8s.io", "leases", "create", ()),
        ("", "configmaps", "get", ("rebalancer-state",)),
        ("", "configmaps", "update", ("rebalancer-state",)),
        ("", "configmaps", "create", ()),
    }


def test_pods_can_never_be_deleted_and_secrets_never_read() -> None:
    assert not [right for right in EVERYTHING if right[2] in {"delete", "deletecollection", "patch", "*"}]
    assert not [right for right in EVERYTHING if "secrets" in right[1] or right[1] == "*" or right[0] == "*"]
    assert {right[2] for right in EVERYTHING if right[1].startswith("pods/")} == {"create"}


@pytest.mark.parametrize(
    ("folder", "role"),
    [(BASE, "ClusterRole"), (ACTIVE, "ClusterRole"), (ACTIVE, "Role")],
    ids=["base", "active", "own"],
)
def test_each_role_is_bound_to_our_service_account_alone(folder: Path, role: str) -> None:
    found = resources(folder)
    granted = [item["metadata"]["name"] for item in found if item["kind"] == role]
    bindings = [item for item in found if item["kind"] == f"{role}Binding"]
    account = of_kind(BASE, "ServiceAccount")["metadata"]["name"]

    assert granted
    assert [bound["roleRef"] for bound in bindings] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name} for name in granted
    ]
    # Without a namespace: kustomize sets that of the account, also where an overlay has changed it.
    for bound in bindings:
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": account}]


def test_the_configuration_that_our_policies_name_may_be_read() -> None:
    allowed = {
        name for _, resource, _, names in grants(rules(BASE)) for name in names if resource == "configmaps"
    }
    named = [
        policy["scheduler"]["configMap"]["name"]
        for policy in map(read, sorted((ROOT / "policies").glob("*.yaml")))
        if "configMap" in (policy.get("scheduler") or {})
    ]

    assert named
    assert set(named) <= allowed


@rows("version", VERSIONS)
@rows("part, definition", [("surge", "DeploymentSpec"), ("steer", "NodeSpec")])
def test_the_policy_beside_a_right_to_patch_names_every_field_that_there_is(
    part: str, definition: str, version: str
) -> None:
    policy = of_kind(ROOT / "k8s" / "components" / part, "ValidatingAdmissionPolicy")
    said = " ".join(item["expression"] for item in policy["spec"]["validations"])
    fields = properties_of(definition, version)

    assert len(fields) >= 7
    assert {field for field in fields if not re.search(rf"oldObject\.spec\.\??{field}\b", said)} == set()


def test_every_manifest_is_one_document() -> None:
    for path in (ROOT / "k8s").rglob("*.yaml"):
        assert len(list(yaml.safe_load_all(path.read_text()))) == 1, path
