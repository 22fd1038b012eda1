"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m tools.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import Reason, groups

_HEAD = """\
# What protects pods

Every pod that stays has one of the codes below, with a sentence about that pod. `rebalancer plan --all` lists
them, and `rebalancer explain pod/NAMESPACE/NAME` names every rule that protects one pod. Change the setting,
or annotate the pod, if you want it to move.

In JSON the code is `kept[].reason`; `verdict` of `explain` may also be `Moved`, `Removed`, `Evictable`,
`NodeNotHot` or `Pending`.
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
