"""The shape of a KubeSchedulerConfiguration as it is written, decoded strictly."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rebalancer.profiles.arguments import Arguments

_MAX_INT32 = 2**31 - 1


def without_nulls(value: Any) -> Any:
    """A value whose mappings have lost their nulls: to Kubernetes a null field is an absent one."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value


class WrittenPlugin(Arguments):
    """A plugin's name, and its weight where it scores."""

    name: str = Field(min_length=1)
    weight: int = Field(default=0, ge=0, le=_MAX_INT32)


PluginList = tuple[WrittenPlugin, ...]


class WrittenPluginSet(Arguments):
    """What is enabled and disabled at an extension point."""

    enabled: PluginList = ()
    disabled: PluginList = ()


class WrittenPlugins(Arguments):
    """The plugin sets of a profile."""

    pre_enqueue: WrittenPluginSet = WrittenPluginSet()
    queue_sort: WrittenPluginSet = WrittenPluginSet()
    pre_filter: WrittenPluginSet = WrittenPluginSet()
    filter: WrittenPluginSet = WrittenPluginSet()
    post_filter: WrittenPluginSet = WrittenPluginSet()
    pre_score: WrittenPluginSet = WrittenPluginSet()
    score: WrittenPluginSet = WrittenPluginSet()
    reserve: WrittenPluginSet = WrittenPluginSet()
    permit: WrittenPluginSet = WrittenPluginSet()
    pre_bind: WrittenPluginSet = WrittenPluginSet()
    bind: WrittenPluginSet = WrittenPluginSet()
    post_bind: WrittenPluginSet = WrittenPluginSet()
    multi_point: WrittenPluginSet = WrittenPluginSet()

    def at(self, point: str) -> WrittenPluginSet:
        """The set under a key of the text, ``preFilter`` or ``multiPoint``."""
        field = next(name for name, info in type(self).model_fields.items() if (info.alias or name) == point)
        found: WrittenPluginSet = getattr(self, field)
        return found


class WrittenPluginConfig(Arguments):
    """The arguments of one plugin."""

    name: str = Field(min_length=1)
    args: dict[str, Any] = Field(default={})


class WrittenProfile(Arguments):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = Field(default=None, ge=0, le=100)
    plugins: WrittenPlugins = WrittenPlugins()
    plugin_config: tuple[WrittenPluginConfig, ...] = ()


class WrittenManagedResource(Arguments):
    """A resource an extender looks after."""

    name: str = Field(min_length=1)
    ignored_by_scheduler: bool = False


class WrittenExtender(Arguments):
    """An extender."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = Field(default=0, ge=0, le=_MAX_INT32)
    enable_https: bool = Field(default=False, validation_alias="enableHTTPS")
    tls_config: Any = None
    http_timeout: Any = Field(default=None, validation_alias="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[WrittenManagedResource, ...] = ()
    ignorable: bool = False


class WrittenConfiguration(Arguments):
    """The whole document; what does not bear on placement is only required to exist."""

    api_version: str
    kind: str
    parallelism: int = Field(default=16, ge=1)
    leader_election: dict[str, Any] | None = None
    client_connection: dict[str, Any] | None = None
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int = Field(default=0, ge=0, le=100)
    pod_initial_backoff_seconds: int | None = Field(default=None, ge=1)
    pod_max_backoff_seconds: int | None = Field(default=None, ge=1)
    delay_cache_until_active: bool | None = None
    profiles: tuple[WrittenProfile, ...] = ()
    extenders: tuple[WrittenExtender, ...] = ()
