"""What a simulation found: policies side by side, cycle by cycle."""

from __future__ import annotations

from rebalancer.planning.plan import API_VERSION, Value


class SimulatedMove(Value, frozen=True):
    """A pod that was evicted, and where its replacement went."""

    pod: str  # namespace/name
    workload: str
    from_node: str
    node: str  # empty while Pending
    result: str  # Landed, LandedElsewhere, Unexpected, Pending
    because: str = ""
    again: bool = False  # its workload was moved in an earlier cycle, less than its cooldown ago


class LoadSpread(Value, frozen=True):
    """How the load lies over the nodes, by the true load of the moment."""

    hot: int | None  # nodes, by the policy's own rules; None: too little load is known for them
    peak: dict[str, float]  # the highest percent of allocatable of any node, by resource
    deviation: dict[str, float]  # standard deviation over the nodes, in points
    # nodes with more than 80 % of cpu or memory in use, for every policy alike; None: no node is known
    over80: int | None = 0


class Cycle(Value, frozen=True):
    """One cycle: what it found, and what it did."""

    cycle: int  # counted from 1
    hot: int | None  # as LoadSpread's
    peak: dict[str, float]
    deviation: dict[str, float]
    evictions: int
    pending: int  # pods without a node at its end
    moves: tuple[SimulatedMove, ...]
    stopped: str = ""  # why the cycle ended before its plan did, or planned nothing
    plans: int = 1  # that it made; the later ones by the cluster as the one before left it
    over80: int | None = 0  # as LoadSpread's


class PolicyRun(Value, frozen=True):
    """All cycles under one policy."""

    policy: str
    cycles: tuple[Cycle, ...]
    after: LoadSpread  # when the last cycle is over
    evictions: int
    unexpected: int  # replacements that landed where the plan did not allow, or nowhere
    again: int  # moves of a workload within its cooldown
    warnings: tuple[str, ...] = ()


class Simulation(Value, frozen=True):
    """Policies side by side on the same cluster, load and seed."""

    source: str
    inputs: str  # digest of the inputs of all policies
    now: str
    seed: int
    interval_seconds: float
    noise: float  # standard deviation of a pod's load, as a share of it
    daily: float  # amplitude of the daily curve, as a share of the load
    lag_seconds: float  # metrics are averages over this long
    runs: tuple[PolicyRun, ...]
    api_version: str = API_VERSION
    kind: str = "Simulation"
