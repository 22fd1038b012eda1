"""Which minors are verified, and what reports say of the others.

A minor is verified when its scheduler, built from its sources, and the model decided the same random clusters
alike (``make conformance``). Of a minor that is not released yet a prerelease is compared: the rules that are
new in it are provisional, as they may still change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.counting import counted
from rebalancer.scheduling.versions.release import REFERENCE, Release, Rule, minor_of
from rebalancer.scheduling.versions.rules import RULES

COMPARED: Mapping[str, str] = {
    "1.20": "1.20.15",
    "1.22": "1.22.17",
    "1.26": "1.26.15",
    "1.31": "1.31.14",
    "1.32": "1.32.13",
    "1.33": "1.33.13",
    "1.34": "1.34.4",
    "1.35": "1.35.4",
    "1.36": "1.36.3",
    "1.37": "1.37.2",
    "1.38": "1.38.0-beta.0",
}
"""The release of each minor whose decisions were compared with the model's, oldest first.

The schedulers to compare with are built from these, and whatever names verified minors is made from this.
"""

VERIFIED: tuple[str, ...] = tuple(COMPARED)
"""The minors whose decisions were compared with the model's, oldest first."""

_OLDEST_READ = 19
_NEWEST_READ = 38  # the newest minor whose rules are in the table, verified or not
_RULES_NAMED = 3
ALLOWED_BY = "scheduler.allowUnverifiedVersion"
"""The setting with which a run acts on a version that was not verified."""


def verified_in_words() -> str:
    """``1.20, 1.22, 1.26 and 1.31 to 1.37``."""
    return _in_words(minor_of(version) or 0 for version in VERIFIED)


def read_in_words() -> str:
    """The minors whose rules are in the table and whose decisions were not compared."""
    verified = {minor_of(version) for version in VERIFIED}
    return _in_words(minor for minor in range(_OLDEST_READ, _NEWEST_READ + 1) if minor not in verified)


def _in_words(minors: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for minor in minors:
        if spans and minor == spans[-1][-1] + 1:
            spans[-1].append(minor)
        else:
            spans.append([minor])
    words = [f"1.{span[0]} to 1.{span[-1]}" if len(span) > 1 else f"1.{span[0]}" for span in spans]
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def is_verified(version: str) -> bool:
    """Whether a minor's decisions were compared with the model's."""
    return version in COMPARED


def compared_prerelease(version: str) -> str:
    """The prerelease of a minor that was compared, such as 1.38.0-beta.0; empty when a release was."""
    compared = COMPARED.get(version, "")
    if "-" in compared:
        return compared
    return ""


def provisional_rules(version: str) -> tuple[Rule, ...]:
    """The rules that are new in a minor of which only a prerelease was compared: they may still change."""
    minor = minor_of(version)
    if minor is None or not compared_prerelease(version):
        return ()
    return tuple(rule for rule in RULES if rule.decides and rule.holds(minor) != rule.holds(minor - 1))


def differing_rules(version: str) -> tuple[Rule, ...]:
    """The rules that decide differently in this minor and in the verified one that differs from it least."""
    minor = minor_of(version)
    if minor is None:
        return ()
    return min((_between(minor, minor_of(verified) or 0) for verified in VERIFIED), key=len)


def _between(minor: int, other: int) -> tuple[Rule, ...]:
    """The rules that decide differently in two minors."""
    return tuple(rule for rule in RULES if rule.decides and rule.holds(minor) != rule.holds(other))


def why_unverified(version: str, pods: Iterable[PodClass]) -> str:
    """Why the decisions of a minor about these pods may be others than the model's; empty when they are not.

    A minor that was not verified decides as the verified one that differs from it least, where no rule that
    differs between the two is in use. One of which a prerelease was compared is verified where no provisional
    rule is in use.
    """
    minor = minor_of(version)
    if minor is None:
        return "its version is not known"
    if minor > _NEWEST_READ:
        return f"what changed after 1.{_NEWEST_READ} is not known"
    classes = tuple(pods)
    if is_verified(version):
        in_use = _names_in_use(provisional_rules(version), classes)
        if in_use:
            return f"{compared_prerelease(version)} was compared, and {in_use} may change until the release"
        return ""
    in_use = _names_in_use(differing_rules(version), classes)
    if in_use:
        return f"it differs in {in_use}"
    return ""


def why_versions_differ(version: str, others: Iterable[str], pods: Iterable[PodClass]) -> str:
    """Why a scheduler whose pods have several versions may decide otherwise about these pods than the first.

    Only one of its pods decides, and nobody outside knows which; empty where all would decide alike.
    """
    classes = tuple(pods)
    for other in others:
        versions = f"its pods have versions {version} and {other}"
        in_use = _names_in_use(_between(minor_of(version) or 0, minor_of(other) or 0), classes)
        if in_use:
            return f"{versions}, which differ in {in_use}"
        unverified = why_unverified(other, classes)
        if unverified:
            return f"{versions}: {unverified}"
    return ""


def _names_in_use(rules: Iterable[Rule], classes: Collection[PodClass]) -> str:
    """The rules that concern any of these classes of pods, with commas in between."""
    return ", ".join(rule.name for rule in rules if any(map(rule.may_concern, classes)))


@lru_cache(maxsize=16)
def _doubtful(release: Release) -> tuple[Rule, ...]:
    """The rules that may make a placement unknown in a release; mostly none."""
    return tuple(
        rule
        for rule in RULES
        if release.follows_an_older_form_of(rule)
        or release.is_unsure_of(rule)
        or (release.has(rule) and not rule.modelled)
    )


def unpredictable_rule(release: Release, pod: PodClass, settled: Collection[Rule] = ()) -> str:
    """Why a rule makes a pod's placement unknown: its gate may be closed, or it is not modelled.

    ``settled`` are rules that are known not to concern this pod, whatever their gates.
    """
    for rule in _doubtful(release):
        if rule in settled:
            continue
        if rule.gate is not None and release.follows_an_older_form_of(rule):
            return (
                f"{rule.gate.name} is on in scheduler 1.{release.minor}, whose form of it is not modelled; "
                f"if no pod uses it, say scheduler.featureGates: {{{rule.gate.name}: false}}"
            )
        unsure = release.is_unsure_of(rule)
        unmodelled = release.has(rule) and not rule.modelled
        if not (unsure or unmodelled) or not rule.may_concern(pod):
            continue
        gate = rule.gate.name if rule.gate is not None else rule.name
        what = f"{gate} of scheduler 1.{release.minor} would decide"
        if unmodelled and rule.gate is not None and rule.gate.can_be_set(release.minor):
            return (
                f"{what}, which is not modelled; if it is off, say scheduler.featureGates: {{{gate}: false}}"
            )
        if unmodelled:
            return f"{what}, which is not modelled"
        return f"{what}, and whether it is on is not known; say so in scheduler.featureGates"
    return ""


def version_warnings(version: str, api_version: str, *, is_allowed: bool = False) -> tuple[str, ...]:
    """Warnings about a scheduler's version and its configuration's API version.

    ``is_allowed``: the policy lets a run act on a version that was not compared.
    """
    minor = minor_of(version)
    if minor is None:
        run = "acts all the same" if is_allowed else "refuses to act"
        return (
            f"the scheduler's version is not known: the rules of {REFERENCE} are used, and run {run}; state "
            "it in scheduler.version",
        )
    warnings: list[str] = []
    if not is_verified(version):
        warnings.append(_unverified(version, minor, is_allowed=is_allowed))
    provisional = provisional_rules(version)
    if provisional:
        run = "carries out" if is_allowed else "refuses"
        warnings.append(
            f"scheduler {version} was compared as of {compared_prerelease(version)}; run {run} a plan that "
            f"moves pods which depend on {_some_names(provisional)}: these may change until the release"
        )
    short = api_version.rpartition("/")[2]
    rule = next((rule for rule in RULES if rule.name == f"configuration {short}"), None)
    if rule is not None and not rule.holds(minor):
        warnings.append(f"scheduler {version} does not read configurations of {short}: that is {rule.range}")
    return tuple(warnings)


def _unverified(version: str, minor: int, *, is_allowed: bool) -> str:
    """What a minor means for ``run`` that was not compared."""
    if minor > _NEWEST_READ:
        unknown = f"scheduler {version}: what changed after 1.{_NEWEST_READ} is not known"
        if is_allowed:
            return f"{unknown}; run acts on it all the same ({ALLOWED_BY})"
        return f"{unknown}; run refuses to act on it ({ALLOWED_BY} allows it)"
    rules = differing_rules(version)
    if not rules:
        return f"scheduler {version} was read but not compared ({verified_in_words()} were); it decides alike"
    run = "carries out" if is_allowed else "refuses"
    return (
        f"scheduler {version} was read but not compared ({verified_in_words()} were); run {run} a plan "
        f"that moves pods which depend on {_some_names(rules)}"
    )


def _some_names(rules: Sequence[Rule]) -> str:
    """The names of the first rules, and how many others there are."""
    named = ", ".join(rule.name for rule in rules[:_RULES_NAMED])
    if len(rules) > _RULES_NAMED:
        named += f" and {counted(len(rules) - _RULES_NAMED, 'other')}"
    return named
