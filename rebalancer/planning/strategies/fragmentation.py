"""The strategy that makes room on one node for a pod which fits on none, though there is room in all.

For each pod to make room for, nodes are tried in the order of how few pods must leave, and at what cost. All
of these move or none: each must land elsewhere, and then the scheduler's filters must admit the pod, in every
scenario. Where the scheduler would preempt pods of lower priority anyway, nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace
from pydantic import Field

from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.model import PolicyModel, Unique
from rebalancer.policy.schema import BOLDEST
from rebalancer.policy.units import Duration

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, PodRow
    from rebalancer.planning.builder import PartialPlan, PlanBuilder
    from rebalancer.planning.landing.evaluation import Wish
    from rebalancer.planning.landing.purpose import Landings
    from rebalancer.planning.plan import Move
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.planning.reasons import NotMoved
    from rebalancer.planning.strategies.room import Room, RoomNeed

_MAX_NODES = 5  # that are tried for a pod
_Key = Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+/[^/\s]+$", examples=["shop/Deployment/web"])]


class FragmentationSettings(PolicyModel):
    """For what room is made."""

    pending_for: Duration = Field(
        default=300.0, description="Only for pods that have been unschedulable for so long."
    )
    workloads: Annotated[tuple[_Key, ...], Unique] = Field(
        default=(),
        description="Workloads, as namespace/Kind/name, of which one more pod is always to fit.",
    )
    resizes: bool = Field(default=True, description="Also for pods whose in-place resize is Deferred.")
    despite_preemption: bool = Field(
        default=False, description="Also for pods for which the scheduler would preempt others."
    )


class Fragmentation(Strategy):
    """Moves as few pods as it takes."""

    name = "fragmentation"
    label = "MadeRoom"
    description = "Make room on one node for a pod that fits on none."
    settings_type = FragmentationSettings
    settings: FragmentationSettings
    settled = "nothing needs the room that it would make any more"

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        super().__init__(prepared, settings)
        self._together: dict[str, str] = {}  # by uid of a pod that moves: for what, the same for all of them

    @cached_property
    def _room(self) -> Room:
        from rebalancer.planning.strategies.room import Room  # noqa: PLC0415 - imports numpy

        return Room(self.prepared, self.settings)

    def group(self, pod: PodRow) -> str:
        return self._together.get(self.prepared.pods.uids[pod], "")

    def resume(self, moves: Sequence[Move]) -> None:
        """What moves together, and for which pods, is read from the moves."""
        for move in moves:
            if move.strategy == self.name:
                self._together[move.pod.uid] = f"{move.from_node} {move.makes_room_for}"

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """None by itself: ``extend`` chooses them."""
        return ()

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        return ""

    def why_still(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That what a pod makes room for still does not fit."""
        state = plan.scenarios.all[0].after_termination
        needs = [need for need in self._room.needs if need.pod is None or need.pod == pod]
        short = (need for need in needs if not self._room.fits(need, state))
        return next((f"it makes room for {need.name}" for need in short), "")

    def wish(
        self, pod: PodRow, message: str, plan: PlanBuilder, makes_room_for: PodRow | None = None
    ) -> Wish:
        """With the room that it makes, for one more pod of a workload where it is for no other pod."""
        wish = super().wish(pod, message, plan, makes_room_for)
        return replace(wish, room=self._room.on_node(self.prepared.node_of(pod), makes_room_for))

    def extend(self, so_far: PartialPlan) -> PartialPlan:
        """The plan with the pods moved that make room, all of a node or none."""
        if not self._room.needs:
            return so_far
        notes = list[str]()
        why_kept = dict(so_far.staying)
        builder = so_far.builder.copy()
        for need in self._room.needs:
            if self._room.fits(need, builder.scenarios.all[0].after_termination):
                continue
            made, refused, why = self._made(need, builder)
            wished = {
                pod: replace(refusal, message=f"{refusal.message} ({self.name}: {self._message(pod, need)})")
                for pod, refusal in refused.items()
            }
            why_kept = wished | why_kept
            if made is None:
                notes.append(f"{need.name} gets no room: {self._no_room(need, builder, refused, why)}")
                continue
            builder, pods, node = made
            uids = (self.prepared.pods.uids[pod] for pod in pods)
            self._together.update(dict.fromkeys(uids, need.name))
            notes.append(f"{need.name} will fit on {node} in every scenario")
        moved = builder.moved
        why_kept = {pod: why for pod, why in why_kept.items() if pod not in moved}
        notes_by_strategy = {**so_far.notes, self.name: "; ".join(notes)} if notes else so_far.notes
        return replace(so_far, builder=builder, staying=why_kept, notes=notes_by_strategy)

    def _made(
        self, need: RoomNeed, builder: PlanBuilder
    ) -> tuple[tuple[PlanBuilder, Sequence[PodRow], str] | None, dict[PodRow, NotMoved], str]:
        """The plan with room for it, the pods that leave and the node; else what stays, and why in words."""
        why_kept: dict[PodRow, NotMoved] = {}
        words: list[str] = []
        for node, pods in self._room.choices(need, builder)[:_MAX_NODES]:
            tried = builder.copy()
            refused = self._move(tried, pods, need)
            unfit = "" if refused else self._room.place(need, tried.scenarios, self.prepared.node_of(pods[0]))
            if not refused and not unfit:
                return (tried, pods, node), why_kept, ""
            name_of = self.prepared.pods.full_name
            words += [f"{name_of(pod)} stays: {why.message}" for pod, why in refused.items()]
            words += [f"{node} {unfit}"] if unfit else []
            why_kept |= {pod: why for pod, why in refused.items() if pod not in why_kept}
        words = words or ["no node has pods enough that may leave it and land elsewhere"]
        return None, why_kept, words[0]

    def _no_room(
        self, need: RoomNeed, builder: PlanBuilder, refused: Mapping[PodRow, NotMoved], words: str
    ) -> str:
        """Why there is none, what would make some, and on which nodes there may be some later."""
        names = self.prepared.nodes.names
        excluded = self.prepared.landing_check.excluded
        returns = (
            (pod, node) for pod, why in refused.items() if (node := self.prepared.node_of(pod)) == why.node
        )
        pod, back = next(returns, (None, None))
        if pod is not None and back is not None:
            likely = builder.copy()
            likely.evaluator = builder.evaluator.taking_the_race_as_likely()
            made, *_ = self._made(need, likely)
            would = f"what would leave {names[back]} may land there again"
            if made:
                words = f"{would}; planning.aggressiveness {BOLDEST} would make room on {made[2]}"
            elif (steered := self._made_by_steering(need, builder)) is not None:
                words = f"{would}; execution.steer: softTaint would make room on {steered}"
            elif words.startswith(f"{self.prepared.pods.full_name(pod)} stays: "):
                words = f"{would}, with planning.aggressiveness {BOLDEST} as well"
        doubtful = [f"{names[row]} {why}" for row, why in sorted(excluded.items())]
        if not doubtful:
            return words
        words += f", and some are not counted on: {doubtful[0]}"
        if len(doubtful) > 1:
            words += f" and {len(doubtful) - 1} more"
        return words

    def _made_by_steering(self, need: RoomNeed, builder: PlanBuilder) -> str | None:
        """The node on which soft taints would make room, where the policy gives none."""
        if builder.steers:
            return None
        steering = builder.copy()
        steering.steers = True
        made, *_ = self._made(need, steering)
        return None if made is None else made[2]

    def _message(self, pod: PodRow, need: RoomNeed) -> str:
        return f"it makes room on {self.prepared.nodes.names[self.prepared.node_of(pod)]} for {need.name}"

    def _move(self, builder: PlanBuilder, pods: Sequence[PodRow], need: RoomNeed) -> dict[PodRow, NotMoved]:
        """Move pods up to the first that may not; why that one stays."""
        for pod in pods:
            wish = self.wish(pod, self._message(pod, need), builder, need.pod)
            settling = self.prepared.settling(self.prepared.node_of(pod))
            refusal = settling or builder.try_move(self.prepared.candidate(pod, wish))
            if refusal is not None:
                return {pod: refusal}
        return {}

    def spoils(self, landings: Landings) -> BoolArray | None:
        """The only node that has room for one more pod of a workload."""
        for need in self._room.needs if self.settings.workloads and landings.state is not None else ():
            if need.pod is None and landings.state is not None:
                only = self._room.only_node(need, landings.state)
                if only is not None and only in landings.rows:
                    spoiled: BoolArray = landings.rows == only
                    return spoiled
        return None

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is the only node with room for one more pod of a workload"
