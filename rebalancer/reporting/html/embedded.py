"""The plan inside a report, so that the report can be read back as the plan it shows.

The JSON is compressed: a plan for 1,500 nodes is a megabyte of JSON and less than a tenth of that here. A
browser shows nothing of it, because its type is none that a browser runs.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib

from rebalancer.errors import InputError
from rebalancer.planning.plan import API_VERSION, KIND, Plan, decode, encode

_ELEMENT = re.compile(rb'<script type="application/zlib" id="plan">([A-Za-z0-9+/=\s]*)</script>')
MAX_PLAN_BYTES = 256 * 1024 * 1024  # of JSON: more than the plan of the largest cluster


def embedded(plan: Plan) -> str:
    """The plan's JSON, compressed, as text for an HTML element."""
    return base64.b64encode(zlib.compress(encode(plan), 9)).decode("ascii")


def read_plan(content: bytes, where: str) -> Plan:
    """The plan in a file: JSON, or a report in HTML. Raises InputError when there is none."""
    if content.lstrip()[:1] == b"<":
        content = _extracted(content, where)
    try:
        plan = decode(content)
        if (plan.api_version, plan.kind) != (API_VERSION, KIND):
            raise ValueError(f"it is {plan.kind[:60]!a} of {plan.api_version[:60]!a}")
        return plan
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"this is no plan: {error}", where=where, hint="write one with: rebalancer plan -o json"
        ) from None


def _extracted(content: bytes, where: str) -> bytes:
    found = _ELEMENT.search(content)
    if found is None:
        raise InputError(
            "this HTML holds no plan", where=where, hint="write one with: rebalancer plan -o html"
        )
    decompressor = zlib.decompressobj()
    try:
        plan = decompressor.decompress(base64.b64decode(found[1], validate=False), MAX_PLAN_BYTES)
    except (zlib.error, binascii.Error) as error:
        raise InputError(f"the plan in this report is damaged: {error}", where=where) from None
    if decompressor.unconsumed_tail:
        raise InputError(f"the plan in this report is larger than {MAX_PLAN_BYTES} bytes", where=where)
    return plan
