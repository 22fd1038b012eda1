"""The scheduler's configuration, from an option, the policy or the cluster; and plugins that are installed.

Importing plugins takes time, so it is done only when a configuration names one that is not known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.documents import read_text
from rebalancer.errors import InputError, RightsError, UnreachableError
from rebalancer.files import named
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.policy.schedulers import ConfigMapKey, SchedulerSettings
from rebalancer.profiles import GROUP, KIND, NEWEST_VERSION
from rebalancer.profiles.types import ConfigurationText, PluginDescription

if TYPE_CHECKING:
    from importlib import metadata

    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.snapshot import Snapshot


LOGGER = logging.getLogger(__name__)
# A label that AKS gives its nodes, and where users write how its scheduler decides.
_OF_AKS = "kubernetes.azure.com/cluster"
_OF_AKS_USERS = Kind(
    "schedulerconfigurations", "SchedulerConfiguration", "aks.azure.com", "v1alpha1", records.ApiObject
)
_AKS_NAME = "upstream"


class _AksSpec(msgspec.Struct, rename="camel"):
    raw_config: str | None = None
    profiles: list[dict[str, Any]] = []  # of the first preview


class _AksConfiguration(msgspec.Struct):
    spec: _AksSpec


MAX_SCHEDULERS = 9


def configuration_texts(
    loaded: LoadedPolicy, override: Path | None = None, api: RawApi | None = None
) -> dict[str, ConfigurationText | None]:
    """The configuration of each scheduler of a policy, by ``place_of``; None where the policy names none.

    That of the only scheduler may be an option's file instead. A file of the policy is looked for beside the
    policy. A ConfigMap needs ``api``, and is None without it. Raises InputError when what is named is not
    there.
    """
    schedulers = loaded.policy.schedulers
    if override is not None and len(schedulers) > 1:
        raise InputError(
            f"--scheduler-config is the configuration of one scheduler; the policy names {len(schedulers)}",
            where=loaded.source,
            hint="give it as scheduler[].file of one of them",
        )
    texts: dict[str, ConfigurationText | None] = {}
    for settings in schedulers:
        written = _configuration_text(settings, loaded.source, override, api)
        if written is not None:
            written = replace(written, scores=_scores(settings, loaded.source, api))
        texts[place_of(settings, loaded.source)] = written
    return texts


def _scores(settings: SchedulerSettings, source: str, api: RawApi | None) -> dict[str, str]:
    """What the policy's extenders compute, by their addresses; a ConfigMap is left out without ``api``."""
    scores: dict[str, str] = {}
    for extender in settings.extenders:
        if extender.scores is not None:
            scores[extender.url] = extender.scores
        elif extender.file is not None:
            scores[extender.url] = read_text(Path(source).parent / extender.file)
        elif extender.config_map is not None and api is not None:
            scores[extender.url] = _value(api, extender.config_map, "scheduler.extenders[].configMap").text
    return scores


def _configuration_text(
    settings: SchedulerSettings, source: str, override: Path | None, api: RawApi | None
) -> ConfigurationText | None:
    if override is not None:
        return ConfigurationText(read_text(override), named(override))
    if settings.inline is not None:
        return ConfigurationText(settings.inline, f"{named(Path(source))} scheduler.inline")
    if settings.file is not None:
        path = Path(source).parent / settings.file
        return ConfigurationText(read_text(path), named(path))
    if settings.config_map is None or api is None:
        return None
    return _value(api, settings.config_map, "scheduler.configMap")


def _value(api: RawApi, place: ConfigMapKey, setting: str) -> ConfigurationText:
    """The text of a ConfigMap's key; InputError where it is not there."""
    where = f"configmap {place.namespace}/{place.name}"
    data = api.config_map(place.namespace, place.name)
    if data is None:
        raise InputError("not found", where=where, hint=f"{setting} of the policy names where it is")
    if place.key not in data:
        keys = ", ".join(sorted(data)) or "none"
        raise InputError(f"has no key {place.key}", where=where, hint=f"its keys: {keys[:200]}")
    return ConfigurationText(data[place.key], f"{where} {place.key}")


def configuration_of_aks(snapshot: Snapshot, api: RawApi) -> ConfigurationText | None:
    """The configuration that users of AKS have written for its scheduler; None elsewhere, and without one.

    Raises InputError where the object holds none.
    """
    from rebalancer.cluster.live.discovery import Discovery  # noqa: PLC0415 - of a live cluster alone
    from rebalancer.cluster.live.failures import RequestRejectedError  # noqa: PLC0415

    if not any(_OF_AKS in (node.metadata.labels or {}) for node in snapshot.nodes.records):
        return None
    where = f"schedulerconfiguration {_AKS_NAME}"
    try:
        body = api.find(f"read {where}", f"{_OF_AKS_USERS.path}/{_AKS_NAME}")
    except RightsError as error:
        LOGGER.warning("AKS's scheduler is taken to have Kubernetes' defaults: %s", error)
        return None
    except RequestRejectedError as error:
        if error.status != HTTPStatus.NOT_FOUND or Discovery(api).form(_OF_AKS_USERS) is not None:
            raise
        return None
    if body is None:
        return None
    try:
        spec = msgspec.json.decode(body, type=_AksConfiguration).spec
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no SchedulerConfiguration: {error!s:.200}", where=where) from error
    if spec.raw_config is not None:
        return ConfigurationText(spec.raw_config, where)
    written = {"apiVersion": f"{GROUP}/{NEWEST_VERSION}", "kind": KIND, "profiles": spec.profiles}
    return ConfigurationText(msgspec.json.encode(written).decode(), where)


_METADATA_ONLY = {
    "Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
}
_MAX_PAGES = 20
_MAX_LOOKED_AT = 10
_MAX_FOUND = 10
_SYSTEM = "kube-system"


def configurations_in(api: RawApi) -> tuple[ConfigMapKey, ...]:
    """The ConfigMaps' keys that hold a scheduler's configuration; empty where ConfigMaps may not be listed.

    Only those are read whose name says ``sched``; of all others the names alone, without their data. Anybody
    who may write a ConfigMap may write many keys: those of kube-system come first, and only ten are found.
    """
    try:
        named = [place for place in _config_maps(api) if "sched" in place[1]]
        named.sort(key=lambda place: place[0] != _SYSTEM)
        places = (
            ConfigMapKey(namespace=namespace, name=name, key=key)
            for namespace, name in named[:_MAX_LOOKED_AT]
            for key, text in (api.config_map(namespace, name) or {}).items()
            if "kind: KubeSchedulerConfiguration" in text
        )
        return tuple(islice(places, _MAX_FOUND))
    except (RightsError, UnreachableError):  # it is found by hand then
        return ()


def _config_maps(api: RawApi) -> Iterator[tuple[str, str]]:
    """Namespace and name of each ConfigMap; every namespace has one of certificates, which is left out."""
    query: dict[str, Any] = {"limit": 500, "fieldSelector": "metadata.name!=kube-root-ca.crt"}
    for _ in range(_MAX_PAGES):
        answer = api.ask("list configmaps", "/api/v1/configmaps", query, _METADATA_ONLY)
        try:
            page = msgspec.json.decode(answer.body, type=_Names)
        except msgspec.DecodeError as error:
            raise UnreachableError("list configmaps: the answer is not a list", where=api.host) from error
        yield from ((config_map.metadata.namespace, config_map.metadata.name) for config_map in page.items)
        if not page.metadata.continued:
            return
        query["continue"] = page.metadata.continued


class _Metadata(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    continued: str = msgspec.field(default="", name="continue")


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Names(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    items: list[_Named] = []


def check_configuration(loaded: LoadedPolicy) -> None:
    """Check the configurations a policy holds or names as files; InputError when one cannot be used."""
    texts = configuration_texts(loaded)
    for settings in loaded.policy.schedulers:
        written = texts[place_of(settings, loaded.source)]
        if written is not None:
            from rebalancer.planning.scheduler_facts import configured  # noqa: PLC0415 - imports the model

            configured(loaded, settings, written, (), InstalledPlugins())


class InstalledPlugins:
    """The plugins of the entry point group ``rebalancer.plugins``, imported when they are first asked for."""

    def __init__(self) -> None:
        self.descriptions: tuple[PluginDescription, ...] = ()  # empty as long as nobody asked

    def __call__(self) -> tuple[PluginDescription, ...]:
        """All of them, by name. Raises InputError, naming the entry point, for one that cannot be used."""
        if not self.descriptions:
            from importlib import metadata  # noqa: PLC0415 - imports the parsers of mail and of archives

            from rebalancer.scheduling.registry import ENTRY_POINT_GROUP, described  # noqa: PLC0415 - imports numpy

            descriptions: dict[str, tuple[PluginDescription, str]] = {}
            for entry in sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
                package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
                where = f"entry point {entry.name} = {entry.value}{package}"
                description = described(_loaded(entry, where), where)
                if description.name in descriptions:
                    other = descriptions[description.name][1]
                    raise InputError(
                        f"plugin {description.name} is described twice",
                        where=where,
                        hint=f"as well as by {other}",
                    )
                descriptions[description.name] = description, where
            self.descriptions = tuple(description for _, (description, _) in sorted(descriptions.items()))
        return self.descriptions


def _loaded(entry: metadata.EntryPoint, where: str) -> object:
    try:
        return entry.load()
    except Exception as error:
        raise InputError(
            f"cannot be loaded: {type(error).__name__}: {error!s:.200}",
            where=where,
            hint="repair or uninstall its package",
        ) from error
