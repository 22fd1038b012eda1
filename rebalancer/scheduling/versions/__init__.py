"""What differs between Kubernetes minors: rules with their ranges and feature gates, and what is verified.

A ``Release`` is the scheduler that is modelled; it is passed in with the cluster.
"""

from rebalancer.scheduling.versions.release import (
    GATES_AS_RELEASED,
    REFERENCE,
    REFERENCE_RELEASE,
    FeatureGates,
    Release,
    major_minor,
)
from rebalancer.scheduling.versions.rules import RULES, as_seen_by
from rebalancer.scheduling.versions.verified import (
    VERIFIED,
    differing_rules,
    is_verified,
    unpredictable_rule,
    verified_in_words,
    version_warnings,
    why_unverified,
)

__all__ = [
    "GATES_AS_RELEASED",
    "REFERENCE",
    "REFERENCE_RELEASE",
    "RULES",
    "VERIFIED",
    "FeatureGates",
    "Release",
    "as_seen_by",
    "differing_rules",
    "is_verified",
    "major_minor",
    "unpredictable_rule",
    "verified_in_words",
    "version_warnings",
    "why_unverified",
]
