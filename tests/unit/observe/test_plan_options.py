"""The first nodes are asked for before what plans is imported, where no file can be wrong any more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster.kinds import NODES
from rebalancer.cluster.live import RawApi
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions, ask_ahead, open_api
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.run.plan import make_plan
from tests.loopback import Answer, Request, answering
from tests.unit.cluster.live.test_login import a_kubeconfig, outside_a_cluster
from tests.waiting import HANG_SECONDS

__all__ = ["outside_a_cluster"]


class Nodes:
    """A server that is asked for nodes, and may keep the answer to itself."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.asked, self.answers = threading.Event(), threading.Event()

    def answer(self, request: Request) -> Answer:
        self.requests.append(request.path)
        self.asked.set()
        self.answers.wait(HANG_SECONDS)
        return Answer(b"{}")


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    found = Nodes()
    yield found
    found.answers.set()


def options_for(folder: Path, url: str, user: dict[str, Any], policy: str = "{}") -> PlanOptions:
    (folder / "policy.yaml").write_text(policy)
    path = a_kubeconfig(folder / "config", user, server=url)
    return PlanOptions(policy_path=folder / "policy.yaml", kubeconfig=path)


def asked_ahead(options: PlanOptions) -> RawApi | None:
    return ask_ahead(options, RebalancePolicy())


def test_with_a_plain_login_the_first_page_of_nodes_is_asked_for(tmp_path: Path, nodes: Nodes) -> None:
    with answering(nodes.answer) as url:
        assert asked_ahead(options_for(tmp_path, url, {"token": "t"})) is not None
        assert nodes.asked.wait(HANG_SECONDS)
        nodes.answers.set()
    assert nodes.requests == [f"{NODES.path}?limit=500"]


@pytest.mark.parametrize("user", [{"exec": {"command": "login"}}, {"as": "admin"}])
def test_any_other_login_waits_until_the_policy_is_known(
    tmp_path: Path, nodes: Nodes, user: dict[str, Any]
) -> None:
    with answering(nodes.answer) as url:
        assert asked_ahead(options_for(tmp_path, url, user)) is None
        assert asked_ahead(PlanOptions(source=tmp_path)) is None
    assert nodes.requests == []


def test_a_mistake_in_the_policy_is_found_before_anything_is_asked_for(tmp_path: Path, nodes: Nodes) -> None:
    with answering(nodes.answer) as url:
        options = options_for(tmp_path, url, {}, "{apiVersion: rebalancer/v1alpha1, kind: Other}")
        with pytest.raises(InputError, match="Other is not supported"):
            make_plan(options)
    assert nodes.requests == []


@pytest.mark.parametrize("option", ["state_path", "scheduler_config"])
def test_nothing_is_asked_for_ahead_of_files_that_are_still_to_be_read(
    tmp_path: Path, nodes: Nodes, option: str
) -> None:
    (tmp_path / "broken").write_text("{")
    with answering(nodes.answer) as url:
        options = replace(options_for(tmp_path, url, {"token": "t"}), **{option: tmp_path / "broken"})
        assert asked_ahead(options) is None
    assert nodes.requests == []


@pytest.mark.parametrize(
    ("scheduler", "complaint"),
    [
        ("{file: nowhere.yaml}", "nowhere.yaml: cannot be read"),
        ("{inline: {apiVersion: kubescheduler.config.k8s.io/v1, kind: Other}}", "Other"),
    ],
)
def test_a_mistake_in_the_configuration_of_a_policy_is_found_before_anything_is_asked_for(
    tmp_path: Path, nodes: Nodes, scheduler: str, complaint: str
) -> None:
    policy = f"{{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy, scheduler: {scheduler}}}"
    with answering(nodes.answer) as url:
        options = options_for(tmp_path, url, {"token": "t"}, policy)
        with pytest.raises(InputError, match=complaint):
            make_plan(options)
    assert nodes.requests == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "context of-file"),
        ({"context": "prod-eu-1"}, "context prod-eu-1"),
        ({"kube_cluster": "c2", "context": "prod-eu-1"}, "cluster c2"),
        ({"cluster_name": "north"}, "north, context of-file"),
        ({"cluster_name": "north", "context": "prod-eu-1"}, "north, context prod-eu-1"),
    ],
)
def test_what_is_read_names_its_cluster_by_a_name_of_its_users_its_context_and_its_server(
    tmp_path: Path, given: dict[str, str], name: str
) -> None:
    path = tmp_path / "config"
    servers = {"c": "http://127.0.0.1:1", "c2": "http://127.0.0.1:2"}
    contexts = [{"name": text, "context": {"cluster": "c"}} for text in ("of-file", "prod-eu-1")]
    clusters = [{"name": text, "cluster": {"server": server}} for text, server in servers.items()]
    document = {"current-context": "of-file", "contexts": contexts, "clusters": clusters, "users": []}
    path.write_text(json.dumps(document))
    api = open_api(PlanOptions(kubeconfig=path, **given))  # type: ignore[arg-type] # each is a text

    assert api is not None
    assert api.cluster == f"{name} ({api.host})"
