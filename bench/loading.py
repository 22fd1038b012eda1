"""Creates a generated cluster in an API server, as its controllers and kubelets would have left it.

The server should have no controllers and no scheduler: they would change what was generated. Owners come
before what they own, whose references get the uids that the server gave.

An API server takes some 200 writes a second, so 150,000 pods would take half an hour. Where its etcd can be
written to, the first pod of a workload goes through the server, which admits it and fills in its defaults.
The others are copies of what it made of that one, with their own name, uid, node and status.
"""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from rebalancer.cluster.kinds import BY_PLURAL, METRICS
from rebalancer.cluster.live.login import connect

Object = dict[str, Any]

ORDER = (
    "namespaces",
    "nodes",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "poddisruptionbudgets",
    "pods",
)
CONCURRENCY = 16
_WAITING_A_THREAD = 4  # objects made and not yet sent: enough to be busy, and bounded
_CLUSTER_WIDE = frozenset({"namespaces", "nodes"})
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_MERGE_PATCH = "application/merge-patch+json"
_A_TRANSACTION = 100  # pods: etcd takes 128 operations and 1.5 MB


class Server:
    """An API server to be written to; safe for threads."""

    def __init__(self, kubeconfig: Path, concurrency: int = CONCURRENCY) -> None:
        api = connect(kubeconfig)
        settings = api.configuration
        self.url = settings.host
        logins = {item["key"]: item["value"] for item in settings.auth_settings().values()}
        self._headers = {"Accept": "application/json", **logins}
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=concurrency,
            block=True,
            ca_certs=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            cert_reqs="CERT_REQUIRED" if settings.verify_ssl else "CERT_NONE",
        )

    def send(self, method: str, path: str, body: Object, content_type: str = "application/json") -> Object:
        """The answer to one write; what exists already is read instead, any other refusal is an error."""
        manager = "kubelet" if path.endswith("/status") else "kube-controller-manager"
        headers = {**self._headers, "Content-Type": content_type}
        url = f"{self.url}{path}?fieldManager={manager}"
        answer = self._pool.request(method, url, body=json.dumps(body).encode(), headers=headers)
        if answer.status == 409 and method == "POST":
            existing = f"{self.url}{path}/{body['metadata']['name']}"
            answer = self._pool.request("GET", existing, headers=self._headers)
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.data[:500].decode(errors='replace')}")
        found: Object = json.loads(answer.data)
        return found


class Etcd:
    """Where an API server keeps its objects, written to past it; safe for threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=CONCURRENCY, block=True)
        self._waiting: list[Object] = []
        self._lock = threading.Lock()

    def put(self, pod: Object) -> None:
        """Store a pod, with others of its transaction; ``flush`` stores the last ones."""
        metadata = pod["metadata"]
        key = f"/registry/pods/{metadata['namespace']}/{metadata['name']}".encode()
        value = json.dumps(pod, separators=(",", ":")).encode()
        one = {name: base64.b64encode(of).decode() for name, of in (("key", key), ("value", value))}
        with self._lock:
            self._waiting.append({"requestPut": one})
            full = len(self._waiting) == _A_TRANSACTION
        if full:
            self.flush()

    def flush(self) -> None:
        """Store what waits for the other pods of its transaction, and the last one by itself.

        All pods of a transaction have one revision, and a server that has seen the first of them takes itself
        for as new as that. A later revision of one pod makes it wait for all that were stored before.
        """
        with self._lock:
            puts, self._waiting = self._waiting, []
        earlier, last = puts[:-1], puts[-1:]
        batches = [earlier[at : at + _A_TRANSACTION] for at in range(0, len(earlier), _A_TRANSACTION)]
        for stored in filter(None, [*batches, last]):
            body = json.dumps({"success": stored}).encode()
            answer = self._pool.request("POST", f"{self._url}/v3/kv/txn", body=body)
            if answer.status != 200:
                raise SystemExit(f"etcd: {answer.status} {answer.data[:500].decode(errors='replace')}")


class Loader:
    """Creates the objects of a cluster, kind by kind; copies of pods go to ``etcd``, where it is given."""

    def __init__(self, server: Server, concurrency: int = CONCURRENCY, etcd: Etcd | None = None) -> None:
        self._server = server
        self._concurrency = concurrency
        self.uids: dict[str, str] = {}  # as generated -> as the server gave it
        self._etcd = etcd
        self._made: dict[str, Object] = {}  # pods that the server made, by what copies of them share

    def load(self, kinds: Mapping[str, Iterable[Object]]) -> dict[str, int]:
        """Create all objects but metrics, which no API server stores; how many of each kind."""
        unknown = {plural for plural, items in kinds.items() if plural not in ORDER and items}
        assert unknown <= {kind.plural for kind in METRICS}, unknown
        return {plural: self._load_kind(plural, kinds[plural]) for plural in ORDER if plural in kinds}

    def _load_kind(self, plural: str, items: Iterable[Object]) -> int:
        room = threading.Semaphore(self._concurrency * _WAITING_A_THREAD)
        with ThreadPoolExecutor(self._concurrency) as pool:
            pending = []
            for item in items:
                room.acquire()
                task = pool.submit(self._create, plural, item)
                task.add_done_callback(lambda _: room.release())
                pending.append(task)
            for task in pending:
                task.result()
        if self._etcd is not None:
            self._etcd.flush()
        return len(pending)

    def _create(self, plural: str, item: Object) -> None:
        kind = BY_PLURAL[plural]
        metadata = {name: value for name, value in item["metadata"].items() if name not in _SERVERS_OWN}
        if "ownerReferences" in metadata:
            metadata["ownerReferences"] = [
                {**owner, "uid": self.uids.get(owner["uid"], owner["uid"])}
                for owner in metadata["ownerReferences"]
            ]
        shared = _shared(item) if self._etcd is not None and plural == "pods" else ""
        if self._etcd is not None and shared in self._made:
            self._etcd.put(_copied(self._made[shared], item))
            return
        path = kind.path
        if plural not in _CLUSTER_WIDE:
            root = path.removesuffix(plural)
            path = f"{root}namespaces/{metadata['namespace']}/{plural}"
        made = self._server.send("POST", path, {**item, "metadata": metadata})
        if "uid" in item["metadata"]:
            self.uids[item["metadata"]["uid"]] = made["metadata"]["uid"]
        own = f"{path}/{metadata['name']}"
        if plural == "namespaces":
            account = {"metadata": {"name": "default"}}  # pods are not admitted without one
            self._server.send("POST", f"/api/v1/namespaces/{metadata['name']}/serviceaccounts", account)
        if plural == "nodes":  # admission taints new nodes until a controller finds them ready
            taints = {"spec": {"taints": item["spec"].get("taints") or None}}
            self._server.send("PATCH", own, taints, _MERGE_PATCH)
        if "status" in item:
            status = item["status"]
            if plural != "pods" and "generation" in made["metadata"]:  # its controller has seen this spec
                status = {"observedGeneration": made["metadata"]["generation"], **status}
            made = self._server.send("PATCH", f"{own}/status", {"status": status}, _MERGE_PATCH)
        if shared:
            self._made[shared] = made


def _shared(pod: Object) -> str:
    """All of a pod but what is its own: its name, uid, node and status."""
    own = ("name", *_SERVERS_OWN)
    metadata = {name: value for name, value in pod["metadata"].items() if name not in own}
    return json.dumps([metadata, {**pod["spec"], "nodeName": ""}], sort_keys=True)


def _copied(made: Object, pod: Object) -> Object:
    """What the server would have made of a pod, where it made another one of its workload."""
    metadata = {**made["metadata"], "name": pod["metadata"]["name"], "uid": str(uuid.uuid4())}
    del metadata["resourceVersion"]  # etcd's own
    spec = {**made["spec"], "nodeName": pod["spec"]["nodeName"]}
    return {**made, "metadata": metadata, "spec": spec, "status": {**made["status"], **pod["status"]}}
