"""Which scheduler places the replacements, how it is configured, and where it shows that it is alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from rebalancer.documents import Document, parse
from rebalancer.documents.models import validate
from rebalancer.policy.load_sources import Label, PrometheusAddress, QueryText
from rebalancer.policy.model import PolicyModel, ResourceName, Unique, json_text, setting
from rebalancer.policy.units import Duration


class PrometheusScore(PolicyModel):
    """A score that is a PromQL result; its weight is the one that the configuration gives the plugin."""

    address: PrometheusAddress = Field(description="The Prometheus that the plugin asks.")
    query: QueryText = Field(description="The PromQL expression, with one value per node.")
    node_label: Label = setting("node", "Label with the node's name or address.")
    direction: Literal["higher", "lower"] = setting(
        "lower", "Whether the plugin prefers higher or lower values."
    )
    normalization: Literal["range", "maximum", "none"] = setting(
        "range",
        "The values that score 0 and 100: smallest and largest (range), zero and largest (maximum), "
        "0 and 100 (none).",
    )
    scale: float = setting(1.0, "Factor for the value, before rounding it down.", gt=0, le=1e9)
    resource: ResourceName | None = setting(
        None,
        "The resource or signal that the value follows: score rules of hotNodes cool it.",
    )
    missing_score: int | None = setting(
        None,
        "Score of a node without a value; unset, its pods are Unpredictable.",
        ge=0,
        le=100,
    )


class Mirror(PolicyModel):
    """What a plugin of the configuration computes."""

    plugin: str = Field(min_length=1, max_length=253, description="Its name in the configuration.")
    prometheus_score: PrometheusScore = Field(description="It scores nodes by a PromQL query.")


def check_mirrors(mirrors: tuple[Mirror, ...]) -> tuple[Mirror, ...]:
    """Each plugin once, and one label a query: ValueError otherwise."""
    labels: dict[tuple[str, str], str] = {}
    for index, mirror in enumerate(mirrors):
        if any(mirror.plugin == other.plugin for other in mirrors[:index]):
            raise ValueError(f"{mirror.plugin} is listed twice")
        score = mirror.prometheus_score
        if labels.setdefault((score.address, score.query), score.node_label) != score.node_label:
            raise ValueError(
                f"{mirror.plugin} has the same query as another plugin, but a different nodeLabel"
            )
    return mirrors


class ConfigMapKey(PolicyModel):
    """One key of a ConfigMap."""

    namespace: str = Field(min_length=1, description="Namespace of the ConfigMap.")
    name: str = Field(min_length=1, description="Name of the ConfigMap.")
    key: str = setting(
        "scheduler-config.yaml", "Key whose text is the KubeSchedulerConfiguration.", min_length=1
    )


class ScoresKey(ConfigMapKey):
    """One key of a ConfigMap with the scores of an extender."""

    key: str = setting("scores.yaml", "Key whose text is an ExtenderScores.", min_length=1)


class KnownExtender(PolicyModel):
    """An extender that the scheduler's configuration names, and what it computes."""

    url_prefix: str = Field(
        min_length=1, max_length=2000, description="Its urlPrefix in the scheduler's configuration."
    )
    scores: Annotated[str, json_text] | None = setting(None, "Its scores.", min_length=1)
    file: str | None = setting(None, "File of its scores.", min_length=1)
    config_map: ScoresKey | None = setting(None, "ConfigMap with its scores.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = (self.scores, self.file, self.config_map)
        if sum(source is not None for source in sources) != 1:
            raise ValueError("one of scores, file and configMap says what the extender computes")
        return self

    @property
    def url(self) -> str:
        """The address, by which it is found among the configuration's extenders."""
        return self.url_prefix.rstrip("/")


class SchedulerLease(PolicyModel):
    """The Lease that a scheduler renews while it is the leader."""

    namespace: str = setting("kube-system", "Namespace of the Lease.", min_length=1)
    name: str = Field(min_length=1, description="Name of the Lease.")


class SchedulerPods(PolicyModel):
    """The pods that run a scheduler."""

    namespace: str = setting("kube-system", "Namespace of the pods.", min_length=1)
    match_labels: Mapping[str, str] = Field(min_length=1, description="Labels that all of them have.")

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod of the namespace with these labels is one of them."""
        return self.match_labels.items() <= labels.items()

    def __str__(self) -> str:
        """As kubectl writes selectors."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.match_labels.items()))


class SchedulerSettings(PolicyModel):
    """A scheduler that places replacements, and how it is configured."""

    version: str | None = setting(
        None,
        "Its version; by default that of its pods' image.",
        pattern=r"^v?\d{1,3}\.\d{1,3}(\.\d{1,3})?$",
        examples=["1.35"],
    )
    config_map: ConfigMapKey | None = setting(None, "ConfigMap with the scheduler's configuration.")
    file: str | None = setting(None, "File with the scheduler's configuration.", min_length=1)
    inline: Annotated[str, json_text] | None = setting(
        None, "The scheduler's configuration itself.", min_length=1
    )
    lease: SchedulerLease | None = setting(
        None,
        "The scheduler's heartbeat; by default the Lease of its leaderElection, else ready pods.",
    )
    pods: SchedulerPods | None = setting(
        None,
        "The scheduler's own pods; by default those that mount configMap or start with file.",
    )
    profiles: Annotated[tuple[str, ...], Unique] = setting((), "Move only pods with these schedulerNames.")
    assume_neutral: Annotated[tuple[str, ...], Unique] = setting(
        (), "Unknown plugins that score all nodes alike and reject none."
    )
    mirror: Annotated[tuple[Mirror, ...], AfterValidator(check_mirrors)] = setting(
        (), "Unknown plugins of the configuration, and what they compute."
    )
    extenders: tuple[KnownExtender, ...] = setting((), "What extenders compute; pods of others stay.")
    feature_gates: Mapping[str, bool] = Field(
        default_factory=dict,
        description="Feature gates, by name; they override those of its pod.",
    )
    allow_unverified_version: bool = setting(
        False, "Act on versions of the scheduler that were not verified."
    )

    @model_validator(mode="after")
    def _at_most_one_configuration(self) -> Self:
        given = [name for name in ("config_map", "file", "inline") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError("at most one of configMap, file and inline may be given")
        return self

    @property
    def configured_by(self) -> str:
        """The setting that says what its configuration is; empty where its defaults count."""
        given = {"configMap": self.config_map, "file": self.file, "inline": self.inline}
        return next((name for name, value in given.items() if value is not None), "")


def _one_or_several(value: object) -> str:
    return "<several>" if isinstance(value, (list, tuple)) else "<one>"


def _a_list_of_one_is_that_one(
    value: SchedulerSettings | tuple[SchedulerSettings, ...],
) -> SchedulerSettings | tuple[SchedulerSettings, ...]:
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


Schedulers = Annotated[
    Annotated[SchedulerSettings, Tag("<one>")]
    | Annotated[tuple[SchedulerSettings, ...], Tag("<several>"), Field(min_length=1, max_length=9)],
    Discriminator(_one_or_several),
    AfterValidator(_a_list_of_one_is_that_one),
]
"""One scheduler, or a list of those that place pods side by side."""


MAX_SCORES = 20
_SCORES = "ExtenderScores"


class ExtenderScore(PolicyModel):
    """One score of an extender: a plugin of the model or one that is installed, or the result of a query."""

    name: str | None = setting(
        None, "What reports call it; by default as the plugin.", min_length=1, max_length=100
    )
    plugin: str | None = setting(None, "A plugin that is modelled, such as TargetLoadPacking, or installed.")
    prometheus_score: PrometheusScore | None = setting(None, "The result of a PromQL query.")
    args: Mapping[str, Any] = setting({}, "Arguments of the plugin.")
    weight: int = setting(1, "Factor for what it adds to the answer.", ge=1, le=100)
    reject_above: float | None = setting(
        None, "Nodes whose value is larger are rejected, where the scheduler asks the extender to filter."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.plugin is None) == (self.prometheus_score is None):
            raise ValueError("one of plugin and prometheusScore says what is computed")
        if self.prometheus_score is None and self.reject_above is not None:
            raise ValueError("rejectAbove goes by the value of a prometheusScore")
        if self.prometheus_score is not None and (self.name is None or self.args):
            raise ValueError("a prometheusScore needs a name, and takes no args")
        return self


class ExtenderScores(PolicyModel):
    """What an extender computes: what ``rebalancer extender`` answers, and by which the model knows it.

    apiVersion: rebalancer/v1alpha1
    kind: ExtenderScores
    maxScore: 100
    scores:
    - plugin: PodCapacityOfNode
    - name: QuietDisks
      prometheusScore: {address: http://prometheus:9090, query: "avg by (node) (disk_busy)"}
      rejectAbove: 90
    """

    api_version: Literal["rebalancer/v1alpha1"]
    kind: Literal["ExtenderScores"]
    max_score: Literal[10, 100] = setting(
        10,
        "The highest score of a node: 10 as extenders are meant to answer, 100 for as many steps as plugins "
        "have, which the scheduler counts tenfold.",
    )
    refresh: Duration = setting(15.0, "How often figures are read.", ge=1.0, le=3600.0)
    stale_after: Duration = setting(
        120.0, "Figures that are older do not count: the score is the same for all nodes.", ge=1.0, le=86400.0
    )
    await_binding: Duration = setting(
        0.1,
        "How long an answer waits until the pod asked about before is seen on its node, where scores count "
        "pods.",
        ge=0.0,
        le=5.0,
    )
    scores: tuple[ExtenderScore, ...] = Field(
        min_length=1, max_length=MAX_SCORES, description="What is computed; the answer is the sum."
    )


def parse_scores(text: str, source: str) -> tuple[ExtenderScores, Document]:
    """The scores in a text, and the text with its positions; InputError with file and line.

    A policy may name any file of the machine, so nothing is quoted of a text that is another document.
    """
    document = parse(text, source)
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != _SCORES:
        hint = f"it begins with apiVersion: rebalancer/v1alpha1 and kind: {_SCORES}"
        raise document.error((), f"is not an {_SCORES}", hint=hint)
    return validate(ExtenderScores, document), document
