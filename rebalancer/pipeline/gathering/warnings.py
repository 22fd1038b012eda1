"""What a reader of a plan must know about its inputs: what was not read, not used, or is not modelled."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.report import LoadReport
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.versions.verified import version_warnings


def _not_read(unread: Mapping[str, str]) -> list[str]:
    """One sentence for each reason: a dump made by hand lacks many kinds for the same one."""
    by_reason: dict[str, list[str]] = {}
    for plural, why in sorted(unread.items()):
        by_reason.setdefault(why, []).append(plural)
    return [f"not read: {', '.join(plurals)} ({why})" for why, plurals in by_reason.items()]


def input_warnings(
    snapshot: Snapshot,
    configuration: SchedulerConfiguration,
    load: LoadReport,
    missing: Mapping[str, str],
    version: str,
) -> tuple[str, ...]:
    """One sentence per warning, in the order of the way of data.

    ``missing`` has the reason for each address from which plugins get no figures.
    """
    found = list(configuration.warnings)
    found += version_warnings(version, configuration.api_version)
    found += [
        f"extender {extender.url_prefix} is not modelled: all pods of its scheduler are protected"
        for extender in configuration.extenders
    ]
    found += _not_read(snapshot.recording.unread)
    found += snapshot.recording.warnings
    found += [f"could not be read: {item}" for item in snapshot.malformed]
    found += [
        f"seen by plugins: {address or 'built-in load-watcher'}: {why}"
        for address, why in sorted(missing.items())
    ]
    found += load.warnings
    return tuple(found)
