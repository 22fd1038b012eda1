"""Policies in and out: text to a checked policy, a policy to text, its JSON schema, and how two differ."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, ClassVar

import msgspec
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import BeforeValidatorFunctionSchema, WithDefaultSchema

from rebalancer import documents
from rebalancer.documents import to_yaml as dump_yaml
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.errors import InputError
from rebalancer.policy.hotness import DeviationRule, HotRule, UtilizationRule
from rebalancer.policy.load_sources import BUILT_IN_RESOURCES, PrometheusSource
from rebalancer.policy.model import is_extended
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import API_VERSION, KIND, RebalancePolicy
from rebalancer.policy.units import Amount

SCHEMA_ID = "urn:rebalancer:policy:v1alpha1"
EVERYWHERE = ("cpu", "memory")  # what every source measures
_COUNTED = "pods"
_OF_DESCHEDULERS = ("descheduler/", "operator.openshift.io/")  # which ``policy import`` reads
_ABSENT = object()


def named_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """The resources that rules name, each once."""
    return tuple(dict.fromkeys(name for _, name in _mentions(policy)))


def measured_resources(policy: RebalancePolicy, scored: Iterable[str] = ()) -> tuple[str, ...]:
    """What is to be measured: cpu and memory, what the policy names or its plugins score, and all signals."""
    others = dict.fromkeys(
        (*named_resources(policy), *scored, *policy.planning.max_after, *policy.load.signals)
    )
    return (*EVERYWHERE, *(name for name in others if name not in (*EVERYWHERE, _COUNTED)))


def required_resources(policy: RebalancePolicy, scored: Iterable[str] = ()) -> tuple[str, ...]:
    """Without a fresh figure of these a node is unknown: cpu, memory, and what rules name or score.

    Not every node has a given extended resource, and what pods request of it is always known.
    """
    resources = dict.fromkeys((*EVERYWHERE, *named_resources(policy), *scored))
    return tuple(name for name in resources if name != _COUNTED and not is_extended(name))


def pressure_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """The resources whose pressure rules name, each once."""
    rules = (rule for rule in policy.hot_nodes.every_rule if isinstance(rule, UtilizationRule))
    return tuple(dict.fromkeys(name for rule in rules for name in rule.pressure))


def scorable_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """Whatever the policy's sources can measure, named by a rule or not, and the number of pods."""
    if not _reads_prometheus(policy):
        return (*EVERYWHERE, _COUNTED)
    return (*BUILT_IN_RESOURCES, *policy.load.signals)


def _reads_prometheus(policy: RebalancePolicy) -> bool:
    return any(isinstance(source, PrometheusSource) for source in policy.load.sources)


def check_resources(policy: RebalancePolicy, document: documents.Document) -> None:
    """InputError when a rule names a resource that nothing measures."""
    resources = (*BUILT_IN_RESOURCES, *policy.load.signals)
    reads_prometheus = _reads_prometheus(policy)
    for path, name in (*_mentions(policy), *_mentions_elsewhere(policy)):
        if is_extended(name):
            continue
        if name not in resources:
            message = f"{name} is unknown; known: {', '.join(resources)}"
            hint = did_you_mean(name, list(resources))
            hint = f"{hint} Or define it under load.signals" if hint else "define it under load.signals"
            raise document.error(path, message, hint=hint, key=True)
        if name not in (*EVERYWHERE, _COUNTED) and not reads_prometheus:
            message = f"nothing measures {name}: load.sources has no prometheus source"
            raise document.error(path, message, hint="add a prometheus source", key=True)
    for path, rule in _rules(policy):
        if isinstance(rule, UtilizationRule) and rule.pressure and not reads_prometheus:
            message = "nothing measures pressure: load.sources has no prometheus source"
            raise document.error((*path, "pressure"), message, hint="add a prometheus source", key=True)
    if policy.load.signals and not reads_prometheus:
        message = "signals are read from Prometheus, but load.sources has no prometheus source"
        raise document.error(("load", "signals"), message, hint="add a prometheus source")


def _mentions_elsewhere(policy: RebalancePolicy) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Resources that are named outside the rules, and where."""
    yield from ((("planning", "maxAfter", name), name) for name in policy.planning.max_after)
    if not isinstance(policy.load.statistic, str):
        yield from ((("load", "statistic", name), name) for name in policy.load.statistic)
    for number, scheduler in enumerate(policy.schedulers):
        place: tuple[str | int, ...] = (
            ("scheduler",) if len(policy.schedulers) == 1 else ("scheduler", number)
        )
        for index, plugin in enumerate(scheduler.mirror):
            if plugin.prometheus_score.resource:
                path = (*place, "mirror", index, "prometheusScore", "resource")
                yield path, plugin.prometheus_score.resource


def _mentions(policy: RebalancePolicy) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every resource a rule names, and where."""
    for place, rule in _rules(policy):
        if isinstance(rule, UtilizationRule):
            yield from (((*place, "utilization", name), name) for name in rule.utilization)
        elif isinstance(rule, DeviationRule):
            yield from (((*place, "deviation", name), name) for name in rule.deviation)


def _rules(policy: RebalancePolicy) -> list[tuple[tuple[str | int, ...], HotRule]]:
    """Every rule, and where it is written."""
    hot_nodes = policy.hot_nodes
    places: list[tuple[tuple[str | int, ...], HotRule]] = [
        (("hotNodes", "any", index), rule) for index, rule in enumerate(hot_nodes.any)
    ]
    for number, pool in enumerate(hot_nodes.pools):
        places += [(("hotNodes", "pools", number, "any", at), rule) for at, rule in enumerate(pool.any)]
    return places


class LoadedPolicy(msgspec.Struct, frozen=True):
    """A policy, where it was written, and the SHA-256 of its text without secrets."""

    policy: RebalancePolicy
    source: str
    digest: str
    decides_nothing: ClassVar[Mapping[str, str]] = {
        "source": "it names the policy in messages",
        "digest": "two texts may say the same",
    }


def load_policy(path: str | pathlib.Path) -> LoadedPolicy:
    """The policy in a file, and in what it names as prices; InputError when one cannot be used."""
    return parse_policy_file(documents.read_text(path), str(path))


def parse_policy_file(text: str, path: str) -> LoadedPolicy:
    """The policy in the text of a file, and in what it names as prices; InputError as above."""
    loaded = parse_policy(text, path)
    return msgspec.structs.replace(loaded, policy=_with_prices(loaded.policy, pathlib.Path(path).parent))


def _with_prices(policy: RebalancePolicy, folder: pathlib.Path) -> RebalancePolicy:
    """The policy with the prices of the file that it names; its own come first.

    A policy may name any file of the machine, so nothing is quoted of it.
    """
    strategies: Any = policy.strategies
    settings = strategies.consolidation
    if settings is None or not settings.prices_file:
        return policy
    path = folder / settings.prices_file
    text = documents.read_text(path)
    try:
        table = json.dumps({"prices": documents.parse(text, str(path)).value})
        prices_of_file = type(settings).model_validate_json(table, strict=True).prices
    except (InputError, TypeError, ValueError):
        problem = "is no table of prices: numbers of 0 or more by instance type"
        hint = "strategies.consolidation.pricesFile of the policy names it"
        raise InputError(problem, where=str(path), hint=hint) from None
    consolidation = settings.model_copy(update={"prices": {**prices_of_file, **settings.prices}})
    update = {"strategies": strategies.model_copy(update={"consolidation": consolidation})}
    return policy.model_copy(update=update)


def place_of(settings: SchedulerSettings, source: str) -> str:
    """Where a policy says that a scheduler's configuration is: how an observation calls its text.

    ``source`` is that of the policy, beside which files are looked for.
    """
    if settings.inline is not None:
        return f"inline {hashlib.sha256(settings.inline.encode()).hexdigest()[:16]}"
    if settings.file is not None:
        return f"file {PurePath(source).parent / settings.file}"
    place = settings.config_map
    return "" if place is None else f"configmap {place.namespace}/{place.name} {place.key}"


def parse_policy(text: str, source: str) -> LoadedPolicy:
    """The policy in a text; ``source`` is its name in errors."""
    document = documents.parse(text, source)
    if document.value is None:
        raise document.error((), "is empty", hint="rebalancer policy init prints one with every key")
    if isinstance(document.value, dict):
        if str(document.value.get("kind", "")).endswith("List"):
            raise document.error(
                ("kind",), "is a list of a cluster's objects, not a policy", hint="give it to --from"
            )
        for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            written = document.value.get(key)
            if written is None:
                raise document.error((), f"{key} is required", hint=f"write {key}: {expected}")
            if written != expected:
                of_others = str(written).startswith(_OF_DESCHEDULERS)
                hint = f"turn it into one of ours: rebalancer policy import {shlex.quote(source)}"
                raise document.error(
                    (key,),
                    f"{written!s:.60} is not supported",
                    hint=hint if of_others else f"write {key}: {expected}",
                )
    policy = validate(RebalancePolicy, document)
    check_resources(policy, document)
    return LoadedPolicy(policy, source, _digest(documents.redacted_text(text, source)))


def starter() -> str:
    """The commented policy that ``rebalancer policy init`` prints."""
    from importlib import resources  # noqa: PLC0415 - imports compression, for this alone

    return resources.files("rebalancer.policy").joinpath("starter.yaml").read_text("utf-8")


def default_policy() -> LoadedPolicy:
    """The policy with every default."""
    policy = RebalancePolicy.model_construct()  # unchecked: no text was written that could be wrong
    return LoadedPolicy(policy, "defaults", _digest(""))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def to_yaml(policy: RebalancePolicy) -> str:
    """The whole policy as YAML, defaults included; it parses back to an equal one."""
    return dump_yaml(policy.model_dump(mode="json", by_alias=True, exclude_none=True))


def shown(policy: RebalancePolicy) -> tuple[Any, bool]:
    """The whole policy as plain values without its secrets, and whether it has any."""
    value = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    safe = documents.redacted_document(value)
    return safe, safe != value


_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


class _AsWritten(GenerateJsonSchema):
    """The schema of what a policy writes: ``10m`` as a default, where the program holds 600 seconds."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic calls it so
        """Without titles: they would be the keys once more."""
        return False

    def function_before_schema(self, schema: BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """The schema of what is written, with the bounds of the number that is read from it."""
        written = super().function_before_schema(schema)
        read = self.generate_inner(schema["schema"])
        bounds = {key: read[key] for key in _BOUNDS if key in read}
        if bounds and written.get("type") in ("integer", "number"):
            return {**written, **bounds}
        if bounds and "anyOf" in written:
            choices = (
                {**each, **bounds} if each.get("type") == "number" else each for each in written["anyOf"]
            )
            return {**written, "anyOf": list(choices)}
        return written

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """The schema of a field that has a default."""
        field = super().default_schema(schema)
        serialization: Any = schema["schema"].get("serialization") or {}
        if field.get("default") is not None and "function" in serialization:
            field["default"] = serialization["function"](schema["default"])
        return field

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON; an amount as a policy would write it."""
        return super().encode_default(str(dft) if isinstance(dft, Amount) else dft)


def _in_words_of_json_schema(value: Any) -> Any:
    """A schema in which pydantic left bounds under its own names, as it does of optional numbers."""
    if isinstance(value, list):
        return [_in_words_of_json_schema(element) for element in value]
    if not isinstance(value, dict):
        return value
    standard = {"ge": "minimum", "le": "maximum"}
    return {
        standard.get(key, key): _in_words_of_json_schema(field_value) for key, field_value in value.items()
    }


def schema() -> dict[str, Any]:
    """The JSON schema of a policy, keys in camelCase, with a sentence for each."""
    policy = RebalancePolicy.model_json_schema(by_alias=True, mode="validation", schema_generator=_AsWritten)
    policy["required"] = ["apiVersion", "kind"]
    policy = _in_words_of_json_schema(policy)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **policy}


def changed_settings(former: RebalancePolicy, latter: RebalancePolicy) -> tuple[tuple[str, str, str], ...]:
    """Key, value of the first and of the second policy, defaults filled in and secrets redacted.

    A plan that changed can be laid to what was changed.
    An absent value is empty. What is only a name, such as ``metadata.name``, is not a setting.
    """
    first = shown(former)[0]
    second = shown(latter)[0]
    for value in (first, second):
        value.pop("metadata", None)
    return tuple(
        (documents.format_path(path), _written(before), _written(after))
        for path, before, after in _differences(first, second, ())
    )


def _differences(former: Any, latter: Any, path: documents.Path) -> Iterator[tuple[documents.Path, Any, Any]]:
    if isinstance(former, dict) and isinstance(latter, dict):
        for key in dict.fromkeys((*former, *latter)):
            yield from _differences(former.get(key, _ABSENT), latter.get(key, _ABSENT), (*path, key))
    elif (isinstance(former, list) and isinstance(latter, list) and len(former) == len(latter)) and all(
        isinstance(element, dict) for element in (*former, *latter)
    ):
        for position, (before, after) in enumerate(zip(former, latter, strict=True)):
            yield from _differences(before, after, (*path, position))
    elif former != latter:
        yield path, former, latter


def _written(value: Any) -> str:
    if value is _ABSENT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
