"""A timeline of days that nobody recorded, from kube-state-metrics and cAdvisor and the live objects.

Metrics say which pods there were, on which nodes, what they asked for and used, and what happened to them.
They do not say their affinities, tolerations or volumes: those are taken from the object that is still there,
else from a pod of the same controller, else from the controller's template. Where nothing of the kind is left
only the requests are known, and the pod is of a scheduler that nobody configures, so that no plan moves it:

    web-5f7c-x1   gone, its siblings run     as its siblings, with the requests of then
    etl-99-z8     gone with its Job          schedulerName "unknown": stays where it was
    node-9        gone                       cordoned: its labels are not known, so nothing lands there

Workloads have the replicas, and budgets the counts, that kube-state-metrics tells; their templates, classes,
volumes and configurations are as they are now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import quantities, times
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.dumps.writer import list_pieces
from rebalancer.cluster.kinds import (
    BY_PLURAL,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODE_METRICS,
    NODES,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    KindOf,
)
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import Observation
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer_lab.timeline.history import History, Sample

UNKNOWN_SCHEDULER = "unknown"
_WINDOW = "5m"
_NODE_LABELS = ("node", "nodename", "kubernetes_node", "instance")
_MAX_FIGURE = 1e18  # bytes, cores or seconds: more is an error of an exporter, as is less than nothing
_NEEDED = ("kube_pod_info", "kube_node_status_allocatable")

_STATE = {
    "info": "kube_pod_info",
    "created": "kube_pod_created",
    "started": "kube_pod_start_time",
    "phase": "kube_pod_status_phase == 1",
    "ready": 'kube_pod_status_ready{condition="true"} == 1',
    "requests": "kube_pod_container_resource_requests",
    "restarts": "kube_pod_container_status_restarts_total > 0",
    "killed": 'kube_pod_container_status_last_terminated_reason{reason="OOMKilled"} == 1',
    "evicted": 'kube_pod_status_reason{reason="Evicted"} == 1',
    "allocatable": "kube_node_status_allocatable",
    "capacity": "kube_node_status_capacity",
    "cordoned": "kube_node_spec_unschedulable == 1",
    "node_ready": 'kube_node_status_condition{condition="Ready",status="true"} == 1',
    "taints": "kube_node_spec_taint == 1",
}
_USAGE = {
    "pod_cpu": "sum by (namespace, pod) "
    f'(rate(container_cpu_usage_seconds_total{{pod!="",container!="",container!="POD"}}[{_WINDOW}]))',
    "pod_memory": "sum by (namespace, pod) "
    '(container_memory_working_set_bytes{pod!="",container!="",container!="POD"})',
    "node_cpu": f'sum by (instance, node) (rate(container_cpu_usage_seconds_total{{id="/"}}[{_WINDOW}]))',
    "node_memory": 'sum by (instance, node) (container_memory_working_set_bytes{id="/"})',
}
_NODE_EXPORTER = {
    "node_cpu": f'sum by (instance) (rate(node_cpu_seconds_total{{mode!~"idle|iowait|steal"}}[{_WINDOW}]))',
    "node_memory": "node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes",
}

# What kube-state-metrics tells of objects: their kind, the label that names them, the field, the metric.
_COUNTS: tuple[tuple[KindOf[Any], str, tuple[str, str], str], ...] = (
    (DEPLOYMENTS, "deployment", ("spec", "replicas"), "kube_deployment_spec_replicas"),
    (REPLICA_SETS, "replicaset", ("spec", "replicas"), "kube_replicaset_spec_replicas"),
    (REPLICA_SETS, "replicaset", ("status", "readyReplicas"), "kube_replicaset_status_ready_replicas"),
    (STATEFUL_SETS, "statefulset", ("spec", "replicas"), "kube_statefulset_replicas"),
    (STATEFUL_SETS, "statefulset", ("status", "readyReplicas"), "kube_statefulset_status_replicas_ready"),
    *(
        (
            DISRUPTION_BUDGETS,
            "poddisruptionbudget",
            ("status", field),
            f"kube_poddisruptionbudget_status_{name}",
        )
        for field, name in (
            ("disruptionsAllowed", "pod_disruptions_allowed"),
            ("currentHealthy", "current_healthy"),
            ("desiredHealthy", "desired_healthy"),
            ("expectedPods", "expected_pods"),
        )
    ),
)

Document = dict[str, Any]


class Backfilled(Value, frozen=True):
    """What was backfilled, and what of it is not known."""

    folder: str
    begins: str
    ends: str
    moments: int
    bytes: int
    pods: int  # that were there at some time
    from_siblings: int  # whose scheduling fields are those of a pod of the same controller, or its template
    unknown_pods: int  # of which only requests are known
    unknown_workloads: tuple[str, ...] = ()  # of these
    unknown_nodes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # moments that Prometheus has nothing of, and why
    as_they_are_now: tuple[str, ...] = ("classes", "volumes", "configurations", "templates of workloads")
    api_version: str = API_VERSION
    kind: str = "Backfill"


class Objects:
    """The live objects, and what is known from them of objects that are gone."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._pods = {pod["metadata"]["uid"]: pod for pod in _items(recording, PODS.plural)}
        self.nodes = {node["metadata"]["name"]: node for node in _items(recording, NODES.plural)}
        self._siblings: dict[tuple[str, str, str], Document] = {}
        for pod in self._pods.values():
            for owner in pod["metadata"].get("ownerReferences") or ():
                key = pod["metadata"]["namespace"], owner["kind"], owner["name"]
                self._siblings.setdefault(key, pod)
        for kind in (REPLICA_SETS, STATEFUL_SETS):
            for workload in _items(recording, kind.plural):
                self._add_template(kind.name, kind.api_version, workload)
        self._addresses: dict[str, str] = {
            address["address"]: name
            for name, node in self.nodes.items()
            for address in (node.get("status") or {}).get("addresses") or ()
            if address.get("address")  # a node may have one that is empty, which is not written then
        }
        self._counted: dict[str, list[Document]] = {}
        self.seen: dict[str, str] = {}  # uid of each pod: how it is known
        self.unknown: Counter[str] = Counter()  # pods of a workload of which only requests are known
        self.unknown_nodes: dict[str, None] = {}

    def of(self, plural: str) -> list[Document]:
        """The live objects of a kind."""
        if plural not in self._counted:
            self._counted[plural] = _items(self.recording, plural)
        return self._counted[plural]

    def _add_template(self, kind: str, version: str, workload: Document) -> None:
        metadata = workload["metadata"]
        template = workload["spec"].get("template")
        if not template:
            return
        owner = {"apiVersion": version, "kind": kind, "name": metadata["name"], "controller": True}
        made = {
            "metadata": {
                "labels": (template.get("metadata") or {}).get("labels") or {},
                "ownerReferences": [{**owner, "uid": metadata["uid"]}],
            },
            "spec": template["spec"],
        }
        self._siblings.setdefault((metadata["namespace"], kind, metadata["name"]), made)

    def node_of(self, labels: Mapping[str, str], names: Mapping[str, Any]) -> str:
        """The node that a series is about; empty where none of these names fits."""
        for label in _NODE_LABELS:
            value = labels.get(label, "")
            for text in (value, value.rpartition(":")[0]):
                if text in names:
                    return text
                if text in self._addresses:
                    return self._addresses[text]
        return ""

    def base(self, namespace: str, uid: str, kind: str, name: str) -> Document:
        """What is known of a pod besides what metrics say."""
        pod = self._pods.get(uid)
        if pod is not None:
            self.seen[uid] = "itself"
            return pod
        sibling = self._siblings.get((namespace, kind, name))
        if sibling is not None:
            self.seen[uid] = "sibling"
            return sibling
        if self.seen.get(uid) != UNKNOWN_SCHEDULER:
            workload = f"{namespace}/{kind}/{name}" if kind else f"{namespace}/ of no controller"
            self.unknown[workload] += 1
        self.seen[uid] = UNKNOWN_SCHEDULER
        owners = [
            {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"{kind}/{name}", "controller": True}
        ]
        return {
            "metadata": {"ownerReferences": owners if kind else []},
            "spec": {"schedulerName": UNKNOWN_SCHEDULER, "containers": []},
        }


class Moments:
    """Makes observations of the moments of a history."""

    def __init__(
        self, objects: Objects, history: History, questions: Mapping[str, Iterable[PrometheusQuery]]
    ) -> None:
        """``questions`` are those of the policy's own sources, by address."""
        self._objects = objects
        self._history = history
        self._questions = questions

    def observation(self, moment: float, like: Observation) -> Observation:
        """What would have been observed then. Raises InputError where Prometheus has nothing of it."""
        samples = {name: self._asked(query, moment) for name, query in _STATE.items()}
        for name, query in zip(_NEEDED, ("info", "allocatable"), strict=True):
            if not samples[query]:
                raise InputError(f"Prometheus has no {name} of {times.render(moment)}")
        nodes = self._nodes(samples)
        if not nodes:
            raise InputError(f"Prometheus names no node in {_NEEDED[1]} of {times.render(moment)}")
        pods = self._pods(samples, nodes)
        listings = {
            **self._objects.recording.listings,
            **self._counted(moment),
            NODES.plural: _listing(NODES.plural, list(nodes.values())),
            PODS.plural: _listing(PODS.plural, list(pods.values())),
            NODE_METRICS.plural: _listing(NODE_METRICS.plural, self._node_metrics(moment, nodes)),
            POD_METRICS.plural: _listing(POD_METRICS.plural, self._pod_metrics(moment, pods)),
        }
        recording = replace(self._objects.recording, listings=listings, documents={}, source="backfilled")
        snapshot: Snapshot = build_snapshot(recording)
        book = RawFigures().prometheus
        for address, questions in self._questions.items():
            asked = self._history.book(address, questions, moment)
            book = replace(
                asked, answers=book.answers | asked.answers, failures=book.failures | asked.failures
            )
        return replace(like, snapshot=snapshot, figures=RawFigures({}, {}, book), now=moment, live=False)

    def _asked(self, query: str, moment: float) -> list[Sample]:
        samples = self._history.at(query, moment)
        return [_as_exported(sample) for sample in samples if 0 <= sample.value <= _MAX_FIGURE]

    def _counted(self, moment: float) -> dict[str, Listing]:
        """The kinds of which counts are known, with those of the moment."""
        changed: dict[str, list[Document]] = {}
        for kind, label, (part, field), metric in _COUNTS:
            values = {
                (sample.labels.get("namespace", ""), sample.labels.get(label)): sample.value
                for sample in self._asked(metric, moment)
            }
            if not values:
                continue
            counted: list[Document] = []
            for workload in changed.get(kind.plural) or self._objects.of(kind.plural):
                metadata = workload["metadata"]
                count = values.get((metadata["namespace"], metadata["name"]))
                if count is None:
                    counted.append(workload)
                else:
                    counted.append({**workload, part: {**(workload.get(part) or {}), field: round(count)}})
            changed[kind.plural] = counted
        return {plural: _listing(plural, workloads) for plural, workloads in changed.items()}

    def _nodes(self, samples: Mapping[str, list[Sample]]) -> dict[str, Document]:
        amounts: dict[str, dict[str, dict[str, str]]] = defaultdict(
            lambda: {"allocatable": {}, "capacity": {}}
        )
        for column in ("allocatable", "capacity"):
            for sample in samples[column]:
                resource = _resource(sample.labels.get("resource", ""))
                amounts[sample.labels.get("node", "")][column][resource] = _quantity(sample.value, resource)
        cordoned = _names(samples["cordoned"], "node")
        ready = _names(samples["node_ready"], "node")
        taints: dict[str, list[Document]] = defaultdict(list)
        for sample in samples["taints"]:
            labels = sample.labels
            taint = {"key": labels.get("key", ""), "effect": labels.get("effect", "")}
            if labels.get("value"):
                taint["value"] = labels["value"]
            taints[labels.get("node", "")].append(taint)
        nodes = {}
        for name, columns in amounts.items():
            if not name:
                continue
            live = self._objects.nodes.get(name)
            if live is None:
                self._objects.unknown_nodes[name] = None
                live = {"metadata": {"name": name, "uid": f"gone/{name}"}, "spec": {}, "status": {}}
            is_live = name in self._objects.nodes
            conditions = live["status"].get("conditions") or ()
            earlier = [condition for condition in conditions if condition["type"] == "Ready"]
            conditions = [condition for condition in conditions if condition["type"] != "Ready"]
            conditions.append(
                {
                    **(earlier[0] if earlier else {}),
                    "type": "Ready",
                    "status": "True" if name in ready else "False",
                }
            )
            nodes[name] = {
                "metadata": live["metadata"],
                "spec": {
                    **live["spec"],
                    "unschedulable": name in cordoned or not is_live,
                    "taints": taints[name] if samples["taints"] else live["spec"].get("taints") or [],
                },
                "status": {
                    **live["status"],
                    **{key: value for key, value in columns.items() if value},
                    "conditions": conditions,
                },
            }
        return nodes

    def _pods(
        self, samples: Mapping[str, list[Sample]], nodes: Mapping[str, Document]
    ) -> dict[tuple[str, str], Document]:
        phases = {_pod(sample): sample.labels.get("phase", "") for sample in samples["phase"]}
        created, started = (_values(samples[name], times.LATEST) for name in ("created", "started"))
        ready = {_pod(sample) for sample in samples["ready"]}
        evicted = {_pod(sample) for sample in samples["evicted"]}
        requests: dict[tuple[str, str], dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
        for sample in samples["requests"]:
            resource = _resource(sample.labels.get("resource", ""))
            requests[_pod(sample)][sample.labels.get("container", "")][resource] = _quantity(
                sample.value, resource
            )
        statuses: dict[tuple[str, str], dict[str, Document]] = defaultdict(dict)
        for sample in samples["restarts"]:
            container = sample.labels.get("container", "")
            statuses[_pod(sample)][container] = {"name": container, "restartCount": int(sample.value)}
        for sample in samples["killed"]:
            container = sample.labels.get("container", "")
            status = statuses[_pod(sample)].setdefault(container, {"name": container, "restartCount": 1})
            status["lastState"] = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        pods: dict[tuple[str, str], Document] = {}
        for sample in samples["info"]:
            key = _pod(sample)
            labels = sample.labels
            kind = labels.get("created_by_kind", "")
            name = labels.get("created_by_name", "")
            kind, name = ("", "") if "<none>" in (kind, name) else (kind, name)
            base = self._objects.base(key[0], labels.get("uid", ""), kind, name)
            node = labels.get("node", "")
            since = times.render(created[key]) if key in created else None
            running = times.render(started[key]) if key in started else None
            conditions = [{"type": "Ready", "status": "True" if key in ready else "False"}]
            pods[key] = {
                "metadata": {
                    **base["metadata"],
                    "namespace": key[0],
                    "name": key[1],
                    "uid": labels.get("uid", ""),
                    "creationTimestamp": since,
                    "deletionTimestamp": None,
                },
                "spec": {
                    **_asking(base["spec"], requests[key]),
                    **({"nodeName": node} if node in nodes else {"nodeName": ""}),
                },
                "status": {
                    "phase": phases.get(key, "Unknown"),
                    "startTime": running,
                    "conditions": conditions if node else [],
                    **({"reason": "Evicted"} if key in evicted else {}),
                    **({"containerStatuses": list(statuses[key].values())} if key in statuses else {}),
                },
            }
        return pods

    def _node_metrics(self, moment: float, nodes: Mapping[str, Document]) -> list[Document]:
        figures: dict[str, dict[str, float]] = {}
        for figure in ("node_cpu", "node_memory"):
            samples = self._asked(_USAGE[figure], moment) or self._asked(_NODE_EXPORTER[figure], moment)
            figures[figure] = {
                name: sample.value
                for sample in samples
                if (name := self._objects.node_of(sample.labels, nodes))
            }
        return [
            {
                "metadata": {"name": name},
                "timestamp": times.render(moment),
                "window": f"{_WINDOW}0s",
                "usage": _usage(figures["node_cpu"][name], figures["node_memory"][name]),
            }
            for name in nodes
            if name in figures["node_cpu"] and name in figures["node_memory"]
        ]

    def _pod_metrics(self, moment: float, pods: Mapping[tuple[str, str], Document]) -> list[Document]:
        cpu, memory = (_values(self._asked(_USAGE[name], moment)) for name in ("pod_cpu", "pod_memory"))
        return [
            {
                "metadata": {"namespace": key[0], "name": key[1]},
                "timestamp": times.render(moment),
                "window": f"{_WINDOW}0s",
                "containers": [{"name": "all", "usage": _usage(cpu[key], memory[key])}],
            }
            for key in pods
            if key in cpu and key in memory
        ]


def _asking(spec: Document, requests: Mapping[str, Mapping[str, str]]) -> Document:
    """A spec whose containers ask for what they asked for then."""
    if not requests:
        return spec
    containers = [dict(container) for container in spec.get("containers") or ()]
    named = {container.get("name", "") for container in containers}
    containers += [{"name": name} for name in sorted(set(requests) - named)] if not containers else []
    for container in containers:
        asked = requests.get(container.get("name", ""))
        now = (container.get("resources") or {}).get("requests") or {}
        if asked is not None:
            as_written = {
                name: now[name] if _same(now.get(name, ""), text) else text for name, text in asked.items()
            }
            container["resources"] = {**(container.get("resources") or {}), "requests": as_written}
    return {**spec, "containers": containers}


def _same(quantity: str, other: str) -> bool:
    """Whether two quantities are one amount; how it is written tells a pod from its template."""
    try:
        return quantities.parse(quantity) == quantities.parse(other)
    except ValueError:
        return False


_EXPORTED = "exported_"


def _as_exported(sample: Sample) -> Sample:
    """A sample with the labels of what it is about.

    Without ``honor_labels`` those that Prometheus gives to the exporter have the plain names.
    """
    own = {key.removeprefix(_EXPORTED): text for key, text in sample.labels.items() if _EXPORTED in key}
    return replace(sample, labels={**sample.labels, **own}) if own else sample


def _pod(sample: Sample) -> tuple[str, str]:
    """Namespace and name of the pod that a series is about."""
    return sample.labels.get("namespace", ""), sample.labels.get("pod", "")


def _values(samples: Iterable[Sample], largest: float = _MAX_FIGURE) -> dict[tuple[str, str], float]:
    return {_pod(sample): sample.value for sample in samples if sample.value <= largest}


def _names(samples: Iterable[Sample], label: str) -> frozenset[str]:
    return frozenset(sample.labels.get(label, "") for sample in samples)


_PLAIN = {"cpu", "memory", "pods", "ephemeral_storage", "storage"}


def _resource(name: str) -> str:
    """A resource as Kubernetes writes it; kube-state-metrics has underscores for what labels may not hold."""
    if name in _PLAIN:
        return name.replace("_", "-")
    if name.startswith("hugepages_"):
        return name.replace("_", "-", 1)
    return name


def _quantity(value: float, resource: str) -> str:
    return f"{round(value * 1000)}m" if resource == "cpu" else str(round(value))


def _usage(cores: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cores * 1e9)}n", "memory": str(round(memory))}


def _items(recording: Recording, plural: str) -> list[Document]:
    listing = recording.listings.get(plural)
    if listing is None:
        return []
    objects: list[Document] = msgspec.json.decode(b"".join(list_pieces(replace(listing, malformed=()))))[
        "items"
    ]
    return objects


def _listing(plural: str, items: list[Document]) -> Listing:
    builder = ListingBuilder(BY_PLURAL[plural])
    builder.add_list(msgspec.json.encode({"items": items}))
    return builder.listing()


def backfill(
    live: Observation,
    history_of: Callable[[tuple[float, ...]], History],
    pieces: Iterable[tuple[float, ...]],
    write: Callable[[Observation], int],
    questions: Mapping[str, Iterable[PrometheusQuery]],
    folder: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Backfilled:
    """Write the moments of some pieces of the past, in order; what cannot be had is left out and said.

    Where nothing of it could be had the first failure is raised.
    """
    objects = Objects(live.snapshot.recording)
    size = 0
    done = list[float]()
    left_out = list[RebalancerError]()
    for piece in pieces:
        making = Moments(objects, history_of(piece), questions)
        for moment in piece:
            try:
                size += write(making.observation(moment, live))
            except RebalancerError as error:
                left_out.append(error)
            else:
                done.append(moment)
            progress(times.render(moment))
    if not done:
        raise left_out[0] if left_out else InputError("there is nothing to be backfilled", where=folder)
    by_origin = Counter(objects.seen.values())
    return Backfilled(
        folder=folder,
        begins=times.render(done[0]),
        ends=times.render(done[-1]),
        moments=len(done),
        bytes=size,
        pods=len(objects.seen),
        from_siblings=by_origin["sibling"],
        unknown_pods=by_origin[UNKNOWN_SCHEDULER],
        unknown_workloads=tuple(sorted(objects.unknown)),
        unknown_nodes=tuple(sorted(objects.unknown_nodes)),
        left_out=tuple(map(str, left_out)),
    )
