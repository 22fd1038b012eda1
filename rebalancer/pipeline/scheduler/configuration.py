"""The text of the scheduler's configuration, from an option, the policy or the cluster."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer.documents import read_text
from rebalancer.errors import InputError
from rebalancer.pipeline.scheduler.score_rules import check_score_rules
from rebalancer.policy.policy_file import LoadedPolicy

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.profiles.types import SchedulerConfiguration


@dataclass(frozen=True, slots=True)
class ConfigurationText:
    """A KubeSchedulerConfiguration as written, and where."""

    text: str
    source: str


def configuration_text(
    loaded: LoadedPolicy, override: Path | None = None, api: RawApi | None = None
) -> ConfigurationText | None:
    """The configuration of an option's file, else of the policy; None when neither names one.

    A file of the policy is looked for beside the policy. A ConfigMap needs ``api``. Raises InputError when
    what is named is not there.
    """
    if override is not None:
        return ConfigurationText(read_text(override), str(override))
    settings = loaded.policy.scheduler
    if settings.inline is not None:
        return ConfigurationText(settings.inline, f"{loaded.source} scheduler.inline")
    if settings.file is not None:
        path = Path(loaded.source).parent / settings.file
        return ConfigurationText(read_text(path), str(path))
    if settings.config_map is None or api is None:
        return None
    place = settings.config_map
    where = f"configmap {place.namespace}/{place.name}"
    data = api.config_map(place.namespace, place.name)
    if data is None:
        raise InputError(
            "not found",
            where=where,
            hint="scheduler.configMap of the policy names where the configuration is",
        )
    if place.key not in data:
        keys = ", ".join(sorted(data)) or "none"
        raise InputError(f"has no key {place.key}", where=where, hint=f"its keys: {keys[:200]}")
    return ConfigurationText(data[place.key], f"{where} {place.key}")


def check_configuration(loaded: LoadedPolicy) -> None:
    """Check the configuration a policy holds or names as a file; InputError when it cannot be used."""
    written = configuration_text(loaded)
    if written is not None:
        load_with_plugins(loaded, written)


def load_with_plugins(
    loaded: LoadedPolicy, written: ConfigurationText, neutral: Collection[str] = ()
) -> SchedulerConfiguration:
    """A configuration with the plugins that are installed and those of the policy; see load_configuration.

    ``neutral`` are plugins assumed neutral besides those of the policy.
    """
    from rebalancer.pipeline.scheduler.extra_plugins import installed_plugins, mirrored_plugins  # noqa: PLC0415
    from rebalancer.scheduling.registry import load_configuration  # noqa: PLC0415

    settings = loaded.policy.scheduler
    configuration = load_configuration(
        written.text,
        written.source,
        extra_plugins=mirrored_plugins(loaded.policy),
        installed_plugins=installed_plugins,
        assume_neutral=(*settings.assume_neutral, *neutral),
    )
    idle = [item.plugin for item in settings.mirror if item.plugin not in configuration.extra_plugins]
    if idle:
        warning = f"{loaded.source}: scheduler.mirror: no profile enables {', '.join(idle)}"
        configuration = replace(configuration, warnings=(*configuration.warnings, warning))
    check_score_rules(loaded, configuration)
    return configuration
