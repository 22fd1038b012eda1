"""Adds label matchers to every selector of a PromQL expression.

One Prometheus, Thanos or Mimir may hold the series of many clusters. A policy names the labels that this
cluster's series carry, once, and every query that is asked of that server selects by them:

    labels: {cluster: north}
    sum by (instance) (rate(node_cpu_seconds_total{mode="user"}[5m]))
    sum by (instance) (rate(node_cpu_seconds_total{cluster="north",mode="user"}[5m]))

A name in an expression is a metric unless a parenthesis follows it (a function), it is a word of the
language, or it stands in a list of labels (``by (instance)``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

# What is not closed ends with the expression, which the server refuses.
_TOKEN = re.compile(
    r"""
    (?P<text>"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|`[^`]*+`?)
    |(?P<comment>\#[^\n]*+)
    |(?P<range>\[[^\]]*+\]?)
    |(?P<number>[0-9][0-9a-zA-Z_.]*+)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)
    |(?P<space>\s++)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE_LABELS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _BEFORE_LABELS | {"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"}


def with_matchers(query: str, labels: Mapping[str, str]) -> str:
    """The expression with an equality matcher for each of ``labels`` in every selector."""
    if not labels:
        return query
    added = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items())
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(query)]
    changed: list[str] = []
    in_labels = False  # of a list such as by (instance)
    in_braces = False
    for place, (kind, text) in enumerate(tokens):
        changed.append(text)
        following = _following(tokens, place)
        if in_labels:
            in_labels = text != ")"
        elif in_braces:
            in_braces = text != "}"
        elif text == "{":
            in_braces = True
            changed.append(added)
            if following != "}":
                changed.append(",")
        elif kind == "name" and text.lower() in _BEFORE_LABELS:
            in_labels = following == "("
        elif kind == "name" and _is_metric(text, following):
            changed.append(f"{{{added}}}")
    return "".join(changed)


def _following(tokens: list[tuple[str, str]], place: int) -> str:
    """The next token that is neither space nor a comment."""
    for kind, text in tokens[place + 1 :]:
        if kind not in ("space", "comment"):
            return text
    return ""


def _is_metric(name: str, following: str) -> bool:
    """Whether a name is a metric that no braces follow, which therefore needs some."""
    if name.lower() in _WORDS:
        return False
    return following not in ("(", "{") and following.lower() not in ("by", "without")
