"""Finds the policy in a file, wherever people keep it.

A policy stands alone, in the values of descheduler's Helm chart (``deschedulerPolicy``), or in text within
another object. What holds it does not matter: each mapping of a file is looked at, and each text that may
hold a policy is read as a file of its own.

    values.yaml                  deschedulerPolicy: {profiles: […]}
    HelmRelease of Flux          spec.values.deschedulerPolicy
    Application of Argo CD       spec.source.helm.valuesObject, or text in spec.source.helm.values
    HelmChart of k3s             text in spec.valuesContent
    ConfigMap                    text in data["policy.yaml"] or data["values.yaml"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rebalancer.documents.manifests import parse_manifests
from rebalancer.documents.reading import Document, Path, Place
from rebalancer.errors import InputError

CHART_KEY = "deschedulerPolicy"
KIND = "DeschedulerPolicy"
OPERATOR_KIND = "KubeDescheduler"
_VERSION_KEY = "deschedulerPolicyAPIVersion"
# Arguments that people write beside the policy, where the chart passes them by as descheduler would.
_OF_NO_VALUE = frozenset(
    {
        *("evictDaemonSetPods", "evictFailedBarePods", "evictLocalStoragePods", "evictSystemCriticalPods"),
        *("ignorePvcPods", "ignorePodsWithoutPDB", "minPodAge", "minReplicas", "nodeFit"),
        *("podProtections", "priorityThreshold", "thresholdPriority"),
    }
)
_DEFAULT_VERSION = "descheduler/v1alpha2"
_SIGNS = (CHART_KEY, KIND, OPERATOR_KIND)
_MAX_NESTED_TEXTS = 4
_MAX_SHOWN_LENGTH = 60
_OF_THE_CHART = (
    "give the policy itself, as the chart installs it: "
    "kubectl get configmap -n kube-system descheduler -o jsonpath='{.data.policy\\.yaml}'"
)


class FoundPolicy(msgspec.Struct, frozen=True):
    """A policy as a document of its own, whose places are those of the file."""

    document: Document
    of_chart: bool  # from values of the Helm chart, which completes what they leave out


def policy_in_file(text: str, source: str) -> FoundPolicy:
    """The only policy in a file. InputError where there is none, or more than one."""
    documents = parse_manifests(text, source)
    policies = [
        policy for document in documents for policy in _policies_in(document, text, _MAX_NESTED_TEXTS)
    ]
    if len(policies) == 1:
        return policies[0]
    if policies:
        places = ", ".join(policy.document.position() for policy in policies[:_MAX_NESTED_TEXTS])
        raise InputError(
            f"holds {len(policies)} policies: {places}", where=source, hint="give a file with one of them"
        )
    raise _without_policy(documents, source)


def _without_policy(documents: tuple[Document, ...], source: str) -> InputError:
    """What a file holds that has no policy in it, and where to look for one."""
    expected = (
        f"expected a {KIND} (v1alpha1 or v1alpha2), a {OPERATOR_KIND}, or what holds one: values of "
        "descheduler's chart, a HelmRelease or a ConfigMap"
    )
    if not documents:
        return InputError("holds nothing", where=source, hint=expected)
    first = documents[0]
    if not isinstance(first.value, Mapping):
        return first.error((), "this is not a mapping", hint=expected)
    kind = str(first.value.get("kind") or "no kind")[:_MAX_SHOWN_LENGTH]
    version = str(first.value.get("apiVersion") or "no apiVersion")[:_MAX_SHOWN_LENGTH]
    hint = expected
    if kind == "HelmRelease":
        hint = f"its values have no {CHART_KEY}: look into what spec.valuesFrom names, or {_OF_THE_CHART}"
    elif kind == "ConfigMap":
        hint = _OF_THE_CHART
    return first.error((), f"{kind} of {version}", hint=hint)


def _policies_in(document: Document, text: str, nested: int) -> Iterator[FoundPolicy]:
    """The policies in a document; ``nested`` is how many texts within texts are looked into."""
    ahead: list[tuple[Path, Any]] = [((), document.value)]
    while ahead:
        path, value = ahead.pop()
        if isinstance(value, str):
            if nested and any(sign in value for sign in _SIGNS):
                yield from _policies_in_text(document, path, value, text, nested)
        elif isinstance(value, list):
            ahead += [((*path, index), element) for index, element in reversed([*enumerate(value)])]
        elif isinstance(value, Mapping):
            if value.get("kind") in (KIND, OPERATOR_KIND):
                yield FoundPolicy(_part(document, path, value), of_chart=False)
            elif isinstance(policy := value.get(CHART_KEY), Mapping):
                yield FoundPolicy(_part_of_chart(document, path, value, policy), of_chart=True)
            else:
                ahead += [((*path, key), element) for key, element in reversed([*value.items()])]


def _part_of_chart(
    document: Document, path: Path, values: Mapping[str, Any], policy: Mapping[str, Any]
) -> Document:
    """The policy in values of the chart, with arguments beside it, which act there no more than in it."""
    version = values.get(_VERSION_KEY, _DEFAULT_VERSION)
    beside: dict[str, Any] = {}
    if version == _DEFAULT_VERSION:  # in the first version some act as keys of the policy
        beside = {key: values[key] for key in values if key in _OF_NO_VALUE and key not in policy}
    head = {"apiVersion": version, "kind": KIND}
    part = _part(document, (*path, CHART_KEY), {**head, **policy, **beside})
    keys: dict[Path, Place] = {(key,): document.keys[(*path, key)] for key in beside}
    places: dict[Path, Place] = {(key,): document.values[(*path, key)] for key in beside}
    return Document(part.value, part.source, {**part.values, **places}, {**part.keys, **keys}, part.texts)


def _part(document: Document, path: Path, value: Any) -> Document:
    """A part of a document as one of its own, whose places are the same."""

    def below(places: Mapping[Path, Any]) -> dict[Path, Any]:
        return {place[len(path) :]: at for place, at in places.items() if place[: len(path)] == path}

    values = below(document.values)
    if path in document.keys and () in values:
        values[()] = document.keys[path]
    return Document(value, document.source, values, below(document.keys), below(document.texts))


def _policies_in_text(
    document: Document, path: Path, inner: str, text: str, nested: int
) -> Iterator[FoundPolicy]:
    """The policies in a text that a document holds. A text that is no YAML holds none."""
    try:
        documents = parse_manifests(inner, document.source)
    except InputError:
        return
    for part in documents:
        for policy in _policies_in(part, inner, nested - 1):
            yield FoundPolicy(_moved(policy.document, document.place(path), inner, text), policy.of_chart)


def _moved(document: Document, start: Place, inner: str, text: str) -> Document:
    """A document in a text within a file, with the places that its parts have in the file.

    The lines of a literal block follow the line where it begins. Of a text that is written otherwise, every
    part is where the text begins.
    """
    lines_of_file = text.splitlines()
    lines_of_text = inner.splitlines()

    def moved(place: Place) -> Place:
        line, column = place
        number = start[0] + line
        if number > len(lines_of_file) or line > len(lines_of_text):
            return start
        indent = lines_of_file[number - 1].find(lines_of_text[line - 1])
        return (number, column + indent) if indent >= 0 else start

    values = {path: moved(place) for path, place in document.values.items()}
    keys = {path: moved(place) for path, place in document.keys.items()}
    return Document(document.value, document.source, values, keys, document.texts)
