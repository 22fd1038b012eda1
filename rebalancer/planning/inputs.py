"""What a plan is made from, before and after it is judged by a policy.

    observe()                                    all I/O of a plan      -> Observation
    assemble(observation, policy, state)         pure                   -> PlanningInputs
    Planner(inputs, so_far, options).plan()      pure                   -> Plan

What a plan is made from is one value, ``PlanningInputs``. What the run that asks for it has done so far is
another, ``RunSoFar``: a command that only looks has none. ``PlannerOptions`` say how the plan is made.

An ``Observation`` is what was read: the cluster, raw answers of load sources, facts about its schedulers, the
pod this program runs in, the moment. It knows no policy, except that only what some policy needs was asked.
The digest of a plan is over the three values that ``assemble`` takes, field by field, so that a field which
is added to one of them cannot be left out of it: see ``digest_of``.
"""

from __future__ import annotations

import enum
import hashlib
import math
import types
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace
from pydantic import BaseModel

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.writer import digest as recording_digest
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import redacted_text
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.report import LoadReport
from rebalancer.load.scheduler_view import EMPTY_VIEW, SchedulerView
from rebalancer.planning.plan import Move
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.scheduler_pods import SchedulerPod
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import (
    DEFAULT_SCHEDULER_NAME,
    ConfigurationText,
    PluginDescription,
    SchedulerConfiguration,
)
from rebalancer.scheduling.versions.release import DEFAULT_FEATURE_GATES, FeatureGates, Release
from rebalancer.state.run_state import PastMove, RunState


class ApiServer(msgspec.Struct, frozen=True):
    """The API server that was read: its version, and what its connection lacks."""

    version: str | None = None  # as it says; None: nobody needed it, or it is not known
    unprotected: str = ""  # how somebody on the way could forge or read what was sent, in words


class About(enum.IntEnum):
    """What a warning is about, the most important first: that is the order in which warnings are said."""

    REFUSAL = enum.auto()  # a run would refuse to act
    PROTECTION = enum.auto()  # a protection of the policy names what is not there: it protects nothing
    NAME = enum.auto()  # a setting or option names what is not there
    SETTING = enum.auto()  # a setting has no effect here
    SAFETY = enum.auto()  # figures, or the plan itself, may be forged by somebody on the network
    SCHEDULER = enum.auto()  # the scheduler may decide differently from what is computed
    CLUSTER = enum.auto()  # a part of the cluster was not read
    LOAD = enum.auto()  # a figure is missing or was not used
    PODS = enum.auto()  # what waits, or is still slowed down


class PlanWarning(msgspec.Struct, frozen=True):
    """What a reader of a plan must know, in one sentence; about one subject only one is ever said."""

    about: About
    sentence: str
    subject: str = ""  # of two warnings with the same subject the first is said; empty: the sentence itself


class SchedulerStart(msgspec.Struct, frozen=True):
    """The latest moment at which the scheduler may have started, and how that is known, or why it is not."""

    at: float | None  # Unix seconds; None when not known
    because: str


class SchedulerLife(msgspec.Struct, frozen=True):
    """Whether a scheduler is alive, None being unknown, and how that is known, or why it is not."""

    alive: bool | None
    because: str
    says_what_to_do: bool = False  # ``because`` does: to name its pods would not help


class Observation(msgspec.Struct, frozen=True, eq=False, dict=True):
    """All that was read for plans, each part with its source and its age; nothing in it is a judgement."""

    snapshot: Snapshot  # the cluster, with metrics-server's figures; each kind at its own moment
    figures: RawFigures
    now: float  # Unix seconds
    own_pod: str = ""  # namespace/name of the pod this program runs in
    server: ApiServer = ApiServer()  # of a dump that kubectl printed nothing is known
    # The scheduler's, by the place that a policy names (``place_of``); None where that means the defaults.
    configurations: Mapping[str, ConfigurationText | None] = {}
    assumed_neutral: tuple[str, ...] = ()  # plugins that an option states to be neutral
    installed_plugins: tuple[PluginDescription, ...] = ()  # those that a configuration asked for
    # When schedulers started, by SchedulerLocation.key, as far as plugins care. None: nobody could ask, as of
    # a dump that kubectl printed, and it is taken to be long ago.
    starts: Mapping[str, SchedulerStart] | None = None
    # Schedulers that are not known to be alive, likewise; all others are, or nobody could ask.
    not_alive: Mapping[str, SchedulerLife] = {}
    live: bool = False
    decides_nothing: ClassVar[Mapping[str, str]] = {
        "live": "only the hint of an error, when no load source answered"
    }


class SchedulerFacts(msgspec.Struct, frozen=True):
    """One scheduler of the cluster: what the policy says of it, and what is known of it.

    It begins with its configuration, to which the observation adds its pods and the figures that it sees.
    """

    configuration: SchedulerConfiguration
    settings: SchedulerSettings = SchedulerSettings.model_construct()
    acts_on: tuple[str, ...] = ()  # the schedulerNames whose pods the policy lets move
    pods: tuple[SchedulerPod, ...] = ()  # that run it
    version: str = ""  # major.minor; empty when not known
    is_as_kubelets: bool = False  # nothing else of a recording tells its version
    other_versions: tuple[str, ...] = ()  # higher ones, that others of its pods have
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
    start: SchedulerStart | None = None  # None: long ago, or no plugin cares
    not_alive: str = ""  # why nobody may count on it to place a pod, and what to do; empty: it is alive
    view: SchedulerView = EMPTY_VIEW  # the figures that its plugins see
    # Unix seconds, the moments at which it may have listed the nodes; see ``listed_since``.
    listed_nodes_at: tuple[float, ...] = (math.inf,)
    shuffles: tuple[int, ...] = (0,)  # in which orders those that it found then may have come; likewise
    stale_views: tuple[SchedulerView, ...] = ()  # read before; it may still have any of them cached

    @property
    def release(self) -> Release:
        """Its minor and its feature gates."""
        return Release.of(self.version, self.feature_gates)

    @property
    def name(self) -> str:
        """The schedulerNames that it serves, as messages name it."""
        return ", ".join(sorted(self.configuration.scheduler_names))

    @property
    def serves_default(self) -> bool:
        """Whether it is the one behind default-scheduler."""
        return DEFAULT_SCHEDULER_NAME in self.configuration.scheduler_names


def _is_wanted() -> None:
    """Somebody waits until the plan is made."""


def _nobody_watches(_moves: int) -> None:
    """Nobody sees the plan grow."""


class PlanningInputs(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The values a plan is made from: the same values, the same plan."""

    snapshot: Snapshot
    load: LoadReport
    schedulers: tuple[SchedulerFacts, ...]  # each serves other schedulerNames
    policy: RebalancePolicy
    state: RunState | None
    now: float  # Unix seconds
    digest: str  # of the observation, the policy and the state
    seed: int = 0
    own_pod: str = ""  # namespace/name of the pod this program runs in
    system_workloads: frozenset[str] = frozenset()  # namespace/Kind/name of what plans rely on
    warnings: tuple[PlanWarning, ...] = ()
    # Percent of allocatable by resource and node, of sources that keep no history: the state keeps it.
    present_load: Mapping[str, Mapping[str, float]] = {}
    live: bool = True  # whether the cluster was read just now; else it was recorded

    @cached_property
    def scheduler_of(self) -> Mapping[str, SchedulerFacts]:
        """The scheduler that serves a schedulerName."""
        return {
            name: scheduler
            for scheduler in self.schedulers
            for name in scheduler.configuration.scheduler_names
        }

    def with_views(self, change: Callable[[SchedulerView], SchedulerView]) -> PlanningInputs:
        """The same where the plugins of each scheduler see something else."""
        schedulers = tuple(replace(scheduler, view=change(scheduler.view)) for scheduler in self.schedulers)
        return replace(self, schedulers=schedulers)

    @property
    def acts_on(self) -> tuple[str, ...]:
        """The schedulerNames whose pods the policy lets move, in its order."""
        return tuple(name for scheduler in self.schedulers for name in scheduler.acts_on)


class RunSoFar(msgspec.Struct, frozen=True, eq=False):
    """Which nodes were hot, and what a run has moved and tainted, by the time it plans: at first nothing."""

    # As runs remember them: figures may not show them yet. Of moves that its state holds, nothing.
    moved: tuple[PastMove, ...] = ()
    # By its earlier plans: it counts against the limits, and no workload moves twice.
    made: tuple[Move, ...] = ()
    # Nodes that have the soft taint for a wave which lasts; None: the plan says which get it.
    tainted: tuple[str, ...] | None = None
    # Nodes that are closed with a hard taint while they are emptied; None as for ``tainted``.
    closed: tuple[str, ...] | None = None
    # By node that was hot when the run made a plan, and by the resource in which: its coolTo, in percent.
    hot: Mapping[str, Mapping[str, float]] = {}
    # Why pods stay, by row, on nodes that are open because closing them would not empty them.
    refused: Mapping[PodRow, NotMoved] = {}

    @property
    def moved_workloads(self) -> frozenset[str]:
        """The workloads whose pods it has moved, as namespace/Kind/name."""
        return frozenset(f"{move.pod.namespace}/{move.pod.workload}" for move in self.made)


FRESH_RUN = RunSoFar()
UNTOUCHED = RunSoFar(tainted=(), closed=())
"""For placements that are no run's: none of the nodes has a taint that a plan gives it."""


class PlannerOptions(msgspec.Struct, frozen=True, eq=False):
    """How a plan is made; which pods it moves does not depend on it."""

    # Make the plan however few nodes have a known load: for commands that only look.
    ignore_coverage: bool = False
    # Whether the plan says what keeps nodes hot, and what a raised limit would give: no replay reads that.
    explains: bool = True
    # Whether the run that is planned for knows of earlier ones. One in the cluster that names no state never
    # does, and counts each hot node as hot in enough runs.
    remembers_runs: bool = True
    # Called before each placement; what it raises, because nobody waits for a plan any longer, gives it up.
    ensure_wanted: Callable[[], object] = _is_wanted
    # Called with the number of moves of a plan that has just got one more, for somebody who watches it grow.
    on_move: Callable[[int], object] = _nobody_watches


AS_USUAL = PlannerOptions()


class OfInputs(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What follows from the inputs of a plan, with their cluster and policy at hand."""

    inputs: PlanningInputs

    @property
    def pods(self) -> PodTable:
        """The pods of the snapshot."""
        return self.inputs.snapshot.pods

    @property
    def nodes(self) -> NodeTable:
        """The nodes of the snapshot."""
        return self.inputs.snapshot.nodes

    @property
    def policy(self) -> RebalancePolicy:
        """The policy of the plan."""
        return self.inputs.policy


def digest_of(observation: Observation, policy: LoadedPolicy, state: RunState | None) -> str:
    """The digest of the three values that ``assemble`` takes: the same digest, the same plan.

    Every field counts but those that say themselves why they decide nothing.
    """
    return f"sha256:{hashlib.sha256(canonical((observation, policy, state))).hexdigest()}"


def canonical(value: object) -> bytes:
    """A value as bytes, which differ when the value does; TypeError for a type that nobody has thought of."""
    name = type(value).__name__
    match value:
        case None | bool() | int() | float() | str() | enum.Enum():
            content = repr(value).encode()
        case bytes():
            content = value
        case np.ndarray():
            content = f"{value.dtype} {value.shape} ".encode() + value.tobytes()
        case type() | types.FunctionType() | types.MethodType():
            content = f"{value.__module__}.{value.__qualname__}".encode()
        case _:
            content = b"".join(canonical(part) for part in _parts(value))
    return f"{name}:{len(content)}:".encode() + content


def _parts(value: object) -> Iterable[object]:
    """What a value is made of, in an order that does not depend on how it was made."""
    match value:
        case Snapshot():
            return (value.recording,)  # all else in it follows from what was read
        case Recording():
            # Its documents are read into other fields, its source is a name, and what we have no right to
            # read is among the unread.
            return (recording_digest(replace(value, documents={})), value.unread, value.warnings)
        case ConfigurationText():
            return (_redacted(value), value.scores)
        case Mapping():
            return sorted(map(canonical, value.items()))
        case Set():
            return sorted(map(canonical, value))
        case tuple() | list():
            return value
        case BaseModel():
            return ((name, getattr(value, name)) for name in sorted(type(value).model_fields))
        case msgspec.Struct():
            left_out = getattr(value, "decides_nothing", {})
            names = (name for name in value.__struct_fields__ if name not in left_out)
            return ((name, getattr(value, name)) for name in names)
    raise TypeError(f"{type(value).__name__} has no canonical form: say how it counts in a digest")


def _redacted(configuration: ConfigurationText) -> str:
    """The text as a recording holds it: a token in it decides no plan."""
    try:
        return redacted_text(configuration.text, configuration.source)
    except InputError:
        return configuration.text
