"""Whatever is read by name is absent only where the API server says so of that object."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi
from rebalancer.errors import RebalancerError
from rebalancer.execution.evict import EvictionClient, Verdict
from rebalancer.execution.lease import RunLease
from rebalancer.execution.observed_pods import read_pod
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.execution.restart import restart
from rebalancer.planning.plan import RESTART
from rebalancer.state.stores import ConfigMapStore
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_move, a_pod_document
from tests.unit.execution.fake_api import Answer, Request, fake_api, not_found, refusal


def of_a_restart(api: RawApi) -> object:
    """The verdict on a restart whose Deployment is read first."""
    move = replace(a_move("web-1"), action=RESTART)
    attempt = restart(EvictionClient(api, lambda: NOW), move)
    if attempt.failure is not None:
        raise attempt.failure
    return None if attempt.verdict is Verdict.GONE else attempt.verdict


def of_a_taint(api: RawApi) -> object:
    """Whether taking a taint away fails."""
    taints = OwnTaints(api, ("rebalancer", "rebalancer"), "run", NOW + 600, lambda: NOW)
    taints._set["cool"] = None
    failed = taints.end()
    if failed:
        raise RebalancerError("the taint stays")
    return None


# What reads an object, and the path of the object.
READERS: dict[str, tuple[Callable[[RawApi], object], str]] = {
    "pod": (lambda api: read_pod(api, "shop", "web-1"), "/api/v1/namespaces/shop/pods/web-1"),
    "configuration": (
        lambda api: api.config_map("kube-system", "scheduler-config"),
        "/api/v1/namespaces/kube-system/configmaps/scheduler-config",
    ),
    "state": (
        lambda api: ConfigMapStore(api, "rebalancer", "state").load(),
        "/api/v1/namespaces/rebalancer/configmaps/state",
    ),
    "lease": (
        lambda api: RunLease(api, "rebalancer", "rebalancer", "one", lambda: NOW).read(),
        "/apis/coordination.k8s.io/v1/namespaces/rebalancer/leases/rebalancer",
    ),
    "restart": (of_a_restart, "/apis/apps/v1/namespaces/shop/deployments/web"),
    "taint": (of_a_taint, "/api/v1/nodes/cool"),
}


def asked_by(name: str, answer: Callable[[str], Answer]) -> object:
    """What a reader makes of an answer to the GET of its object; the pod of a restart is there."""
    read, object_path = READERS[name]

    def handler(request: Request) -> Answer:
        if request.path == object_path:
            return answer(object_path)
        assert request.path == READERS["pod"][1]
        return Answer(200, a_pod_document("web-1", resourceVersion="7"))

    return read(fake_api(handler)[0])


def named(path: str, **changes: str) -> Answer:
    """An object that is not the one at this path."""
    *before, plural, name = path.split("/")
    namespace = {"namespace": before[-1]} if before[-2] == "namespaces" else {}
    kind = plural.removesuffix("s").capitalize()
    metadata = {"name": name, "uid": "u", "resourceVersion": "1", **namespace, **changes}
    return Answer(200, {"kind": kind, "metadata": metadata, "spec": {}})


def without_reason(path: str) -> Answer:
    answer = not_found(path)
    return Answer(404, {**answer.body, "reason": ""})


NO_ANSWERS: dict[str, Callable[[str], Answer]] = {
    "html": lambda _: Answer(404, b"<html>404 Not Found</html>"),
    "text": lambda _: Answer(404, b"404 page not found"),
    "nothing": lambda _: Answer(404, b""),
    "a status of no object": lambda _: refusal(404, "the server could not find the requested resource"),
    "another name": lambda path: not_found(f"{path}-2"),
    "another kind": lambda path: not_found(path.replace("/pods/", "/nodes/").rpartition("/")[0] + "s/x"),
    "its namespace": lambda path: not_found("/".join(path.split("/")[:-2])),
    "without a reason": without_reason,
    "another object": lambda path: named(path, name="another"),
    "another namespace": lambda path: named(path, namespace="another"),
    "a status": lambda _: Answer(200, {"kind": "Status", "status": "Success"}),
    "an empty object": lambda _: Answer(200, {}),
    "a list": lambda _: Answer(200, []),
    "html as success": lambda _: Answer(200, b"<html>"),
}


@rows("reader", READERS)
def test_what_the_api_server_says_does_not_exist_is_absent(reader: str) -> None:
    assert asked_by(reader, not_found) is None


@rows("answer", NO_ANSWERS)
@rows("reader", READERS)
def test_any_other_answer_is_none(reader: str, answer: str) -> None:
    with pytest.raises(RebalancerError):
        asked_by(reader, NO_ANSWERS[answer])
