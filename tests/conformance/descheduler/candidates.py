"""What we would evict where the descheduler evicts: by the imported policy, before any landing is looked at.

A candidate is a pod that a strategy wishes to move and that the rules of eviction let go. What follows, the
check of where it lands, is what the descheduler has no counterpart of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import yaml

from rebalancer.cluster import times
from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.dumps.listing import Recording, decode_listing
from rebalancer.cluster.kinds import BY_PLURAL, METRICS
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.report import build_report
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.cleanups import FinishedPods
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.inputs import PlanningInputs, SchedulerFacts
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.strategies import strategies_of
from rebalancer.policy.schema import Evictable, RebalancePolicy
from rebalancer.policy_import import Imported, import_policy
from rebalancer.scheduling.registry import default_configuration
from rebalancer.scheduling.resources import pod_requests

Case = Mapping[str, Any]
_OURS_ALONE = ("SingleReplica", "PersistentVolumes")  # protected by default here, and not there
_UNLIMITED = {"perRun": 10_000, "perNode": 10_000, "perNamespace": 10_000, "perWorkload": "100%"}


class Asked(msgspec.Struct, frozen=True, dict=True):
    """A case and the policy that is ours in place of the descheduler's."""

    case: Case
    imported: Imported

    @classmethod
    def of(cls, case: Case) -> Asked:
        """The case with its policy imported."""
        return cls(case, import_policy(yaml.safe_dump(case["policy"]), str(case["id"])))

    @cached_property
    def policy(self) -> RebalancePolicy:
        """The imported policy, without limits and what we protect by default and the descheduler does not."""
        plain = dict(self.imported.policy)
        evictable = dict(plain.get("evictable", {}))
        found = evictable.get("protect", [str(kind) for kind in Evictable().protect])
        notes = " ".join(
            note.text for note in self.imported.notes if note.key in ("PodsWithPVC", "ignorePvcPods")
        )
        kept = {"PersistentVolumes"} if "evictable.protect" in notes else set()
        evictable["protect"] = [name for name in found if name not in _OURS_ALONE or name in kept]
        evictable.setdefault("minAge", "0s")
        return RebalancePolicy.model_validate({**plain, "evictable": evictable, "limits": _UNLIMITED})

    @cached_property
    def snapshot(self) -> Snapshot:
        """The cluster."""
        kinds = {kind.plural: kind for kind in BY_PLURAL.values() if kind not in METRICS}
        listings = {
            plural: decode_listing(
                kind,
                [msgspec.Raw(msgspec.json.encode(item)) for item in self.case["objects"].get(plural, ())],
            )
            for plural, kind in kinds.items()
        }
        return build_snapshot(Recording(str(self.case["id"]), listings))

    @cached_property
    def prepared(self) -> PreparedInputs:
        """What a plan is made from, with the load that the descheduler sees: what pods request."""
        snapshot, now = self.snapshot, times.parse(self.case["now"])
        by_class = [pod_requests(pod).incoming for pod in snapshot.pods.classes]
        rows = [by_class[index] for index in snapshot.pods.pod_class.tolist()]
        used = np.array([[row.get("cpu", 0), row.get("memory", 0)] for row in rows], np.float64).reshape(
            -1, 2
        )
        total = np.zeros((len(snapshot.nodes), 2))
        bound = snapshot.pods.node >= 0
        np.add.at(total, snapshot.pods.node[bound], used[bound])
        figures = NodeUsage("requests", total, np.full(total.shape, now), np.zeros(len(total)))
        measured = PodUsage(used, np.full(len(used), now))
        load = build_report(
            snapshot.nodes, snapshot.pods, [figures], measured, used, now=now, max_age_seconds=180
        )
        scheduler = SchedulerFacts(default_configuration(), acts_on=("default-scheduler",))
        return prepare(PlanningInputs(snapshot, load, (scheduler,), self.policy, None, now, "sha256:case"))

    def wishes(self, without: frozenset[str] = frozenset()) -> dict[str, str]:
        """Why each pod is wished to move, by its full name, as if some others were gone already."""
        prepared = self.prepared
        strategies = strategies_of(prepared)
        builder = PlanBuilder(prepared, strategies)
        state = builder.scenarios.all[0].after_termination
        for name in without:
            if (row := self.row(name)) < len(prepared.pods):
                state.remove(row)
        found: dict[str, str] = {}
        for strategy in strategies:
            for pod in strategy.pods(builder):
                name = prepared.pods.full_name(pod)
                if name not in without and name not in found and (why := strategy.why(pod, builder)):
                    found[name] = why
        for name, row in self._rows.items():
            if row >= len(prepared.pods) and name not in without:
                for why in self._finished.wishes(row).values():
                    found.setdefault(name, why)
        return found

    def refusal(self, name: str) -> NotMoved | None:
        """Why a pod may not be evicted, None where it may."""
        pod = self.row(name)
        if pod >= len(self.prepared.pods):
            strategies = strategies_of(self.prepared)
            removes_bare_pods = next((item for item in strategies if item.removes_bare_pods), None)
            return next(iter(self._finished.refusals(pod, removes_bare_pods)), None)
        lifts = {reason for strategy in strategies_of(self.prepared) for reason in strategy.lifts}
        return why_protected(self.prepared.eviction, pod, lifts)

    def row(self, name: str) -> PodRow:
        """The row of a pod in the table of all of them."""
        return self._rows[name]

    @cached_property
    def _finished(self) -> FinishedPods:
        return FinishedPods(self.prepared.eviction, strategies_of(self.prepared))

    @cached_property
    def _rows(self) -> dict[str, PodRow]:
        table = self.snapshot.pods.with_finished
        return {table.full_name(row): PodRow(row) for row in range(len(table))}
