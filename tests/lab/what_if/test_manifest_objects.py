"""Of the objects in a file, the one that makes pods is asked about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer_lab.what_if.manifest_objects import object_with_pods
from tests.lab.what_if.builders import a_manifest
from tests.rows import rows

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"}}


def a_file(*objects: Any) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def name_in(text: str, named: str = "") -> str:
    value = object_with_pods(text, "file", named).value
    return f"{value['kind']}/{value['metadata']['name']}"


def test_objects_that_make_no_pods_are_passed_over() -> None:
    assert name_in(a_file(SERVICE, a_manifest("Deployment"), SERVICE)) == "Deployment/new"


@pytest.mark.parametrize("kind", ["List", "DeploymentList"])
def test_a_list_is_the_objects_in_it(kind: str) -> None:
    deployment = a_manifest("Deployment")
    del deployment["kind"]
    items = [deployment] if kind == "DeploymentList" else [SERVICE, {"kind": "Deployment", **deployment}]

    assert name_in(a_file({"kind": kind, "items": items})) == "Deployment/new"


def test_of_several_that_make_pods_one_is_to_be_named() -> None:
    text = a_file(a_manifest("Deployment"), a_manifest("CronJob", "backup"), SERVICE)

    with pytest.raises(InputError) as caught:
        name_in(text)

    assert "file: 2 objects make pods: deployment/new, cronjob/backup" in str(caught.value)
    assert "--object deployment/new" in str(caught.value)
    for named in ("cronjob/backup", "cj/backup", "CronJobs/backup"):
        assert name_in(text, named) == "CronJob/backup"


def test_a_namespace_tells_two_of_a_name_apart() -> None:
    text = a_file(a_manifest("Deployment", namespace="a"), a_manifest("Deployment", namespace="b"))

    with pytest.raises(InputError, match="2 objects are named 'deploy/new'"):
        name_in(text, "deploy/new")
    assert object_with_pods(text, "file", "deploy/b/new").value["metadata"]["namespace"] == "b"


def test_a_hook_of_helm_does_not_make_the_pods_that_are_meant() -> None:
    hook = a_manifest(name="test")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "test"}

    assert name_in(a_file(a_manifest("Deployment"), hook)) == "Deployment/new"
    assert name_in(a_file(SERVICE, hook)) == "Pod/test"


@rows(
    "text, named, words",
    [
        (a_file(SERVICE, SERVICE), "", "none of its 2 objects makes pods: 2 'Service'"),
        (a_file(SERVICE), "", "file:1:30 kind: 'Service' makes no pods"),
        ("", "", "holds no Kubernetes object"),
        (
            a_file(a_manifest()),
            "deploy/new",
            "no object that makes pods is named 'deploy/new' (it holds pod/new)",
        ),
        (a_file(SERVICE), "deploy/new", "it holds nothing that makes pods"),
    ],
)
def test_a_file_without_the_object_that_is_meant_says_what_it_holds(
    text: str, named: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        object_with_pods(text, "file", named)

    assert words in str(caught.value)
