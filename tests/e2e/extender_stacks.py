"""The articles' stacks without a scheduler of one's own: kube-scheduler and ``rebalancer extender``.

python -m tests.e2e.extender_stacks pods-per-node      starts one, places a pod, prints what was scored
python -m tests.e2e.extender_stacks throughput         2,000 pods with an extender and without
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.e2e.agreement_measure import processor_seconds
from tests.e2e.api import Api, Object, path_of
from tests.e2e.clusters import deployment, namespace, node
from tests.e2e.command import COMMAND
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import Program, wait_until
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "extender"
SECOND = "scheduler-plugins-scheduler"
ACCOUNT = "scheduler-plugins-extender"  # may read nodes and pods, and is not the scheduler's
PODS = {"node1": 21, "node2": 17, "node3": 25}  # of 110, as in the article
TRAFFIC = {"node1": 200_000.0, "node2": 140_000.0, "node3": 180_000.0}  # bytes a second
CPU = {"node1": 70.0, "node2": 35.0, "node3": 95.0}  # percent, as load-watcher has them


class Extender:
    """An extender as the Deployment starts it, and how its scheduler finds it."""

    def __init__(self, stack: ControlPlane, scores: str, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = stack.folder / f"scores-{self.port}.yaml"
        self.file.write_text(scores)
        token = stack.service_account_token("scheduler-plugins", ACCOUNT)
        arguments = [f"--config={self.file}", f"--listen=127.0.0.1:{self.port}"]
        self.program = Program.start(
            [*COMMAND, "extender", *arguments, f"--kubeconfig={stack.kubeconfig(token)}", *options],
            stack.folder / f"extender-{self.port}.log",
        )
        stack.programs[f"extender-{self.port}"] = self.program
        self.program.wait_until(lambda: self.get("/readyz")[0] == 200)

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text of an answer; 0 where nobody listens."""
        try:
            answer = urllib3.request("GET", f"{self.url}{path}", timeout=5.0, retries=False)
        except (urllib3.exceptions.HTTPError, OSError):
            return 0, ""
        return int(answer.status), answer.data.decode()

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        lines = self.get("/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{| )", line))


def shipped(stack: str, kind: str, **changed: str) -> str:
    """A file of an example, with addresses of this machine in place of those of the cluster."""
    text = (EXAMPLES / stack / f"{kind}.yaml").read_text()
    for before, after in changed.items():
        text = text.replace(ADDRESSES[before], after)
    return text


ADDRESSES = {
    "extender": "http://127.0.0.1:8890",
    "prometheus": "http://prometheus.monitoring:9090",
    "watcher": "http://load-watcher.loadwatcher.svc.cluster.local:2020",
}


def prepare(stack: ControlPlane) -> Api:
    """Three nodes with as many pods as in the article, and the rights of the manifests."""
    api = _manifests(stack)
    for name, count in PODS.items():
        api.create(node(name, cpu="32", memory="128Gi"))
        pinned = {"nodeSelector": {"kubernetes.io/hostname": name}}
        api.create(deployment(f"on-{name}", count, cpu="50m", memory="32Mi", pod=pinned))
    wait_until(lambda: Counter(placed(api, "default-scheduler").values()) == PODS, "the article's pods")
    stack.wait_for_pods("/api/v1/namespaces/default/pods")
    return api


def _manifests(stack: ControlPlane) -> Api:
    """Apply them; what its Deployment runs is started here, so that no pod of it counts on a node."""
    stack.kubectl("apply", "--server-side", f"--kustomize={ROOT / 'extender/k8s'}")
    path = f"/apis/apps/v1/namespaces/scheduler-plugins/deployments/{SECOND}"
    stack.api.patch(path, {"spec": {"replicas": 0}})
    wait_until(lambda: not stack.api.list("/api/v1/namespaces/scheduler-plugins/pods"), "no pod of it")
    return stack.api


def placed(api: Api, scheduler: str) -> dict[str, str]:
    """Node by name of a scheduler's pods in the namespace default."""
    pods = api.list("/api/v1/namespaces/default/pods", fieldSelector=f"spec.schedulerName={scheduler}")
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def scored(log: Path, pod: str) -> dict[str, int]:
    """What kube-scheduler says at -v=10 that extenders scored for a pod."""
    pattern = (
        rf'"Extender scored node for pod" pod="default/{pod}" extender="[^"]*" node="([^"]*)" score=(\d+)'
    )
    return {name: int(score) for name, score in re.findall(pattern, log.read_text())}


@contextmanager
def figures(answers: Mapping[str, Any]) -> Iterator[str]:
    """A server that answers any path that begins like one of these with a JSON document."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            found = next((value for path, value in answers.items() if self.path.startswith(path)), None)
            body = json.dumps(found() if callable(found) else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815 - what http.server calls

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def prometheus(values: Mapping[str, float]) -> dict[str, Any]:
    """What Prometheus answers any instant query with."""

    def answer() -> Object:
        moment = time.time()
        result = [
            {"metric": {"nodename": name}, "value": [moment, str(value)]} for name, value in values.items()
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    return {"/api/v1/query": answer}


def watcher(values: Mapping[str, float]) -> dict[str, Any]:
    """What load-watcher answers."""

    def answer() -> Object:
        now = int(time.time())
        nodes = {
            name: {"metrics": [{"type": "CPU", "operator": "AVG", "value": value}]}
            for name, value in values.items()
        }
        window = {"duration": "15m", "start": now - 900, "end": now}
        return {"timestamp": now, "window": window, "source": "test", "data": {"NodeMetricsMap": nodes}}

    return {"/watcher": answer}


@contextmanager
def started(stack: ControlPlane, name: str) -> Iterator[tuple[Extender, str]]:
    """The extender of an example with its sources, and the configuration of its scheduler."""
    with figures(prometheus(TRAFFIC) | watcher(CPU)) as address:
        extender = Extender(stack, shipped(name, "scores", prometheus=address, watcher=address))
        yield extender, shipped(name, "scheduler-config", extender=extender.url)


def place_one(stack: ControlPlane, name: str) -> tuple[str, dict[str, int]]:
    """Start an example's stack, place one pod by it: the node, and what the extender scored."""
    with started(stack, name) as (_, configuration):
        stack.start_scheduler(configuration, SECOND, "--v=10")
        stack.api.create(deployment(f"busybox-{name}", 1, cpu="100m", scheduler=SECOND))
        wait_until(lambda: any(_of(stack.api, name).values()), "the pod is placed")
        ((pod, where),) = _of(stack.api, name).items()
        found = where, scored(stack.programs[SECOND].log, pod)
        stack.stop_part(SECOND)
        return found


def _of(api: Api, name: str) -> dict[str, str]:
    return {pod: where for pod, where in placed(api, SECOND).items() if pod.startswith(f"busybox-{name}")}


def throughput(stack: ControlPlane, pods: int, nodes: int, rounds: int = 2) -> dict[str, float]:
    """Pods bound a second by a scheduler without an extender and with one, in turn, and what answers take."""
    api = _manifests(stack)
    for number in range(nodes):
        api.create(node(f"node-{number:04}", cpu="64", memory="256Gi"))
    extender = Extender(stack, shipped("pods-per-node", "scores"))
    with_extender = shipped("pods-per-node", "scheduler-config", extender=extender.url)
    document = yaml.safe_load(with_extender)
    del document["extenders"]
    seconds = {"without": 0.0, "with": 0.0}
    for number in range(rounds):
        for what, configuration in (("without", yaml.safe_dump(document)), ("with", with_extender)):
            name, count = f"{what}-{number}", pods // rounds
            made = deployment(name, count, cpu="10m", memory="1Mi", scheduler=SECOND)
            api.create(made)
            wait_until(
                lambda made=made, count=count: api.get(path_of(made))["status"].get("replicas") == count,  # type: ignore[misc]
                "pods made",
                seconds=300.0,
            )
            began = time.monotonic()
            stack.start_scheduler(configuration, SECOND)
            wait_until(lambda: not _is_one_unbound(api), "bound", seconds=600.0, every=0.25)
            seconds[what] += time.monotonic() - began
            stack.stop_part(SECOND)
    found = {what: pods / took for what, took in seconds.items()}
    for metric in ("answer", "awaited"):
        name = f"rebalancer_extender_{metric}_seconds"
        found[f"{metric} ms"] = 1000 * extender.metric(f"{name}_sum") / extender.metric(f"{name}_count")
    found["processor seconds"] = processor_seconds(extender.program.process.pid)
    return found


def _is_one_unbound(api: Api) -> bool:
    """Whether a pod of the scheduler is on no node."""
    selector = f"spec.schedulerName={SECOND},spec.nodeName="
    return bool(api.list("/api/v1/namespaces/default/pods", limit="1", fieldSelector=selector))


def main(name: str) -> None:
    """Start a stack and print what it does."""
    urllib3.disable_warnings()  # this is loopback, and each program signs itself
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as stack:
        stack.start(kwok=name != "throughput")  # there pods are bound, and need not run
        stack.api.create(namespace("monitoring"))
        if name == "throughput":
            sys.stdout.write(f"{throughput(stack, 2000, 100)}\n")
            return
        prepare(stack)
        where, scores = place_one(stack, name)
        sys.stdout.write(f"{name}: scores {scores}; the pod is on {where}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
