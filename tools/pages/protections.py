"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m tools.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import Reason, groups

_HEAD = """\
# What protects pods

A plan lists every pod on a hot node that it does not move, with one of the codes below and a sentence about
that pod. `rebalancer plan --all` prints the whole list, and `rebalancer explain pod/NAMESPACE/NAME`
explains one pod. The codes are `kept[].reason` in JSON and the label `reason` of metrics; `verdict` in the
JSON of `explain` is one of them, or `Moved`, `Removed`, `Evictable`, `NodeNotHot` or `Pending`. `BLOCKED BY`
(`obstacles` in JSON) names the settings that keep most of the load; a pod that several rules keep counts
for the first of them.
"""


def protections_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, reasons in groups().items():
        rows = "".join(
            f"| `{reason.value}` | {reason.meaning} | {_setting(reason)} |\n" for reason in reasons
        )
        parts.append(f"## {title}\n\n| code | meaning | setting |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def _setting(reason: Reason) -> str:
    return f"`{reason.setting}`" if reason.setting else ""


if __name__ == "__main__":
    sys.stdout.write(protections_page())
