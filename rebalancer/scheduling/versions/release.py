"""Which scheduler is modelled: its minor and what is known of its feature gates.

A ``Release`` is a value that whoever asks for a placement passes in; plugins ask it whether a rule of
``rules.py`` holds.

    Release.of("1.33").has(POD_LEVEL_RESOURCES)               False: on from 1.34
    opened = FeatureGates({"PodLevelResources": True})
    Release.of("1.33", opened).has(POD_LEVEL_RESOURCES)       True
    Release.of("1.31", opened).has(POD_LEVEL_RESOURCES)       False: 1.31 does not have this gate
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from rebalancer.cluster.pod_classes import PodClass

# The release whose rules are used when the scheduler's version is not known.
REFERENCE = "1.35"
NEWEST = 1 << 30
_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\D.*)?", re.ASCII | re.DOTALL)


def major_minor(text: str) -> str:
    """``1.35`` of ``v1.35.4+k3s1``; empty when it is not a version."""
    match = _VERSION.fullmatch(text.strip())
    return f"{int(match[1])}.{int(match[2])}" if match else ""


def minor_of(version: str) -> int | None:
    """The minor of a version of Kubernetes 1; None when it is not known."""
    major, _, minor = version.partition(".")
    return int(minor) if major == "1" and minor.isdecimal() else None


class Gate(msgspec.Struct, frozen=True):
    """The feature gate of a rule: from which minor it exists, and from which it can no longer be changed.

    Before ``modelled_since`` it did something else when it was turned on: then no placement is known.
    """

    name: str
    exists_since: int
    locked_since: int = NEWEST
    modelled_since: int = 0

    def can_be_set(self, minor: int) -> bool:
        """Whether the scheduler of a minor takes this gate from its command line."""
        return self.exists_since <= minor < self.locked_since


class Rule(msgspec.Struct, frozen=True):
    """A rule that not every version has; ``since`` and ``until`` are minors of Kubernetes 1, inclusive."""

    name: str
    what: str
    since: int = 0
    until: int = NEWEST
    gate: Gate | None = None
    without: Callable[[PodClass], PodClass] | None = None  # a pod as seen by a scheduler without the rule
    # Whether decisions about a pod of the class depend on the rule; None: those about any pod may.
    concerns: Callable[[PodClass], bool] | None = None
    decides: bool = True  # False: it changes only words, or what a landing is reported as
    modelled: bool = True  # False: where it holds, the placement of the pods it concerns is not known

    def holds(self, minor: int) -> bool:
        """Whether a minor has the rule, unless its gate says otherwise."""
        return self.since <= minor <= self.until

    def may_concern(self, pod: PodClass) -> bool:
        """Whether decisions about pods of a class may depend on the rule."""
        return self.decides and (self.concerns is None or self.concerns(pod))

    @property
    def range(self) -> str:
        """``1.29 and later``, ``1.22 to 1.27``."""
        if self.until == NEWEST:
            return f"1.{self.since} and later"
        return f"1.{self.since} to 1.{self.until}" if self.since else f"up to 1.{self.until}"


class FeatureGates(msgspec.Struct, frozen=True):
    """What is known of the feature gates of a scheduler."""

    stated: Mapping[str, bool]
    others_are_default: bool = True  # the others are as the release has them; False: nobody knows


DEFAULT_FEATURE_GATES = FeatureGates({})


class Release(msgspec.Struct, frozen=True):
    """A minor of kube-scheduler with its feature gates."""

    minor: int
    gates: frozenset[tuple[str, bool]] = frozenset()
    gates_known: bool = True  # gates that are not among ``gates`` are as the release has them

    @classmethod
    def of(cls, version: str, gates: FeatureGates = DEFAULT_FEATURE_GATES) -> Release:
        """The release of ``1.34``; that of the reference when the version is not known."""
        minor = minor_of(version)
        if minor is None:
            minor = minor_of(REFERENCE) or 0
        return cls(minor, frozenset(gates.stated.items()), gates.others_are_default)

    def _stated(self, rule: Rule) -> bool | None:
        """The state of a rule's gate as it was stated; None when it was not, or is not taken from there."""
        if rule.gate is None or not rule.gate.can_be_set(self.minor):
            return None
        name = rule.gate.name
        return (name, True) in self.gates if {(name, True), (name, False)} & self.gates else None

    def has(self, rule: Rule) -> bool:
        """Whether the scheduler follows a rule."""
        stated = self._stated(rule)
        return rule.holds(self.minor) if stated is None else stated

    def follows_an_older_form_of(self, rule: Rule) -> bool:
        """Whether the rule's gate was turned on in a minor that had something else behind it."""
        return self.has(rule) and rule.gate is not None and self.minor < rule.gate.modelled_since

    def is_unsure_of(self, rule: Rule) -> bool:
        """Whether a gate that is open by default decides, and nobody knows whether it was closed.

        Gates that are closed by default are alpha: they are taken to be closed unless it is stated.
        """
        settable = rule.gate is not None and rule.gate.can_be_set(self.minor)
        open_by_default = rule.holds(self.minor)
        return settable and open_by_default and not self.gates_known and self._stated(rule) is None


REFERENCE_RELEASE = Release.of(REFERENCE)
