"""Generates the parts of the Helm chart that must say what k8s/ and the policy's schema say.

``values.schema.json`` takes each value's type and meaning from ``values.yaml`` itself, where a comment stands
above every key, and the policy's from its own schema, so that Helm refuses a mistake before anything is
installed. The rights of the roles and the policy in ``values.yaml`` are copies of those in k8s/.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

from rebalancer.policy.policy_file import schema

CHART = Path("charts/rebalancer")
ROLES = {
    "read": Path("k8s/base/clusterrole.yaml"),
    "evict": Path("k8s/overlays/active/clusterrole.yaml"),
    "events": Path("k8s/overlays/active/clusterrole-events.yaml"),
    "own": Path("k8s/overlays/active/role.yaml"),
    "surge": Path("k8s/components/surge/clusterrole.yaml"),
    "steer": Path("k8s/components/steer/clusterrole.yaml"),
}
_NARROWED = ("surge", "steer")  # rights that a ValidatingAdmissionPolicy limits
_PRIORITY = Path("k8s/base/priorityclass.yaml")
_NETWORK = Path("k8s/components/network-policy/networkpolicy.yaml")
_POLICY = Path("k8s/base/policy.yaml")
_BEGIN = "  # policy: begin\n"
_END = "  # policy: end\n"
# Go's regular expressions, which Helm checks with, have no lookaround. Without it a pattern allows a little
# more; rebalancer itself refuses the rest.
_LOOKAROUND = re.compile(r"\(\?<?[=!][^()]*\)")
# What a value's default does not tell about the others it may have.
_NARROWER: dict[str, dict[str, Any]] = {
    "kind": {"enum": ["CronJob", "Deployment"]},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "logFormat": {"enum": ["json", "text"]},
    "maxDuration": {"pattern": "^[0-9]+(\\.[0-9]+)?(h|m|s)$"},
    "serviceMonitor.interval": {"pattern": "^[0-9]+(h|m|s)$"},
    "podMonitor.interval": {"pattern": "^[0-9]+(h|m|s)$"},
    "activeDeadlineSeconds": {"minimum": 1},
    "prometheusRule.noSuccessSeconds": {"minimum": 60},
    "schedule": {"minLength": 1},
    "evictionNamespaces": {"items": {"type": "string", "minLength": 1}, "uniqueItems": True},
    "schedulerConfigMaps": {"items": {"type": "string", "minLength": 1}},
    "schedulerLeases": {"items": {"type": "string", "minLength": 1}},
    "cmdOptions": {"additionalProperties": {"type": ["string", "number", "boolean"]}},
}
_OF_TEXTS = re.compile("(?i)(labels|annotations|nodeSelector)$")  # maps whose values Kubernetes wants as text
# Maps whose keys are the chart's own; the keys of all others are Kubernetes' or the user's.
CLOSED = frozenset(
    {"", "image", "networkPolicy", "rbac", "serviceAccount", "podDisruptionBudget", "service"}
) | {*("serviceMonitor", "podMonitor", "prometheusRule", "grafanaDashboard")}


def rights(part: str, root: Path) -> str:
    """The rules of a role in k8s/, with their comments, as a list of their own."""
    rules = (root / ROLES[part]).read_text().split("\nrules:\n")[1]
    return f"# Copied from {ROLES[part].as_posix()}.\n{textwrap.dedent(rules)}"


def copies(root: Path) -> dict[str, str]:
    """What the templates include, by file name: the parts of k8s/ that depend on no value."""
    priority = (root / _PRIORITY).read_text().split("\nvalue: ")[1]
    network = (root / _NETWORK).read_text().split("\n  policyTypes:")[1]
    return {
        **{f"{part}.yaml": rights(part, root) for part in ROLES},
        "priorityclass.yaml": f"value: {priority}",
        **{f"{part}-only.yaml": _admitted(part, root) for part in _NARROWED},
        "networkpolicy.yaml": textwrap.dedent(f"  policyTypes:{network}"),
    }


def _admitted(part: str, root: Path) -> str:
    """What a policy allows, as a list of its own."""
    policy = root / "k8s" / "components" / part / "validatingadmissionpolicy.yaml"
    return textwrap.dedent(policy.read_text().split("\n  validations:\n")[1])


def values(root: Path) -> str:
    """``values.yaml`` with the policy of k8s/base in its place."""
    before, after = (root / CHART / "values.yaml").read_text().split(_BEGIN)
    policy = (root / _POLICY).read_text().split("\nkind: RebalancePolicy\n")[1]
    return f"{before}{_BEGIN}{textwrap.indent(policy, '  ')}{_END}{after.split(_END)[1]}"


def values_schema(root: Path) -> str:
    """The JSON schema of the values."""
    text = values(root)
    policy = _without_lookaround(schema())
    whole = _of_mapping("", yaml.safe_load(text), _comments(text))
    whole["properties"]["policy"] = {
        "type": "object",
        "description": whole["properties"]["policy"]["description"],
        "properties": policy["properties"],
        "additionalProperties": False,
    }
    whole["properties"]["global"] = {
        "type": "object",
        "description": "What Helm hands down from a parent chart.",
    }
    whole = {"$schema": policy["$schema"], "title": "Values of rebalancer", **whole, "$defs": policy["$defs"]}
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"


def _of_mapping(path: str, mapping: dict[str, Any], comments: dict[str, str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []  # what no template can do without; null takes a value away
    for key, value in mapping.items():
        inner = f"{path}.{key}" if path else key
        properties[key] = _of_value(inner, value, comments)
        if comments.get(inner):
            properties[key]["description"] = comments[inner]
        plain = isinstance(value, int | str) and not isinstance(value, bool) and value != ""
        if plain or inner in CLOSED:
            required.append(key)
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def _of_value(path: str, value: object, comments: dict[str, str]) -> dict[str, Any]:
    if isinstance(value, dict):
        if path in CLOSED:
            return _of_mapping(path, value, comments)
        texts = {"additionalProperties": {"type": "string"}} if _OF_TEXTS.search(path) else {}
        return {"type": "object", **texts, **_NARROWER.get(path, {})}
    kind = "string"
    match value:
        case bool():
            kind = "boolean"
        case int():
            return {"type": "integer", "minimum": 0, **_NARROWER.get(path, {})}
        case list():
            kind = "array"
    return {"type": kind, **_NARROWER.get(path, {})}


def _comments(text: str) -> dict[str, str]:
    """What stands above each key of the two outer levels, by its path."""
    comment_by_path: dict[str, str] = {}
    outer = ""
    lines = list[str]()
    for line in (*text.split("\npolicy:\n", maxsplit=1)[0].splitlines(), "policy:"):
        stripped = line.strip()
        if stripped.startswith("#"):
            lines.append(stripped.removeprefix("#").strip())
        elif key := re.match(r"( {0,2})([A-Za-z]+):", line):
            outer = outer if key[1] else key[2]
            comment_by_path[f"{outer}.{key[2]}" if key[1] else outer] = " ".join(lines)
            lines = []
        else:
            lines = []
    return comment_by_path


def _without_lookaround(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_lookaround(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if isinstance(pattern := value.get("pattern"), str) and _LOOKAROUND.search(pattern):
        value = {**value, "pattern": _LOOKAROUND.sub("", pattern), "minLength": 1}
    return {key: _without_lookaround(inner) for key, inner in value.items()}
