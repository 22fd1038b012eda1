"""What a report shows, inside it as data, so that it can be read back: the plan, the policy, the outcomes.

It is compressed: a plan for 1,500 nodes is a megabyte of JSON and less than a tenth of that here. A
browser shows nothing of it, because its type is none that a browser runs.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from pathlib import Path

import msgspec

from rebalancer.documents import read_bytes
from rebalancer.errors import InputError
from rebalancer.planning.plan import API_VERSION, KIND, Plan, decode

_ELEMENT = '<script type="application/zlib" id="{}">'
MAX_PLAN_BYTES = 256 * 1024 * 1024  # of JSON: more than the plan of the largest cluster


def embedded(content: bytes) -> str:
    """Data, compressed, as text for an HTML element."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def read_plan_file(path: Path) -> Plan:
    """The plan in a file, as ``read_plan`` finds it. Raises InputError when it cannot be read."""
    return read_plan(read_bytes(path, largest=MAX_PLAN_BYTES), str(path))


class _Head(msgspec.Struct):
    kind: str = ""


def holds_plan(path: Path) -> bool:
    """Whether a file is a report, or JSON that says to be a plan; no check of the rest."""
    suffix = path.suffix.lower()
    if suffix in (".html", ".htm"):
        return True
    if suffix != ".json":
        return False
    try:
        return msgspec.json.decode(read_bytes(path, largest=MAX_PLAN_BYTES), type=_Head).kind == KIND
    except (InputError, msgspec.DecodeError, RecursionError):
        return False  # such as a folder; whatever reads it says what is wrong


def read_plan(content: bytes, where: str) -> Plan:
    """The plan in a file: JSON, or a report in HTML. Raises InputError when there is none."""
    if content.lstrip()[:1] == b"<":  # as HTML begins
        content = _extracted(content, where, "plan")
    try:
        plan = decode(content)
        if (plan.api_version, plan.kind) != (API_VERSION, KIND):
            raise ValueError(f"it is {plan.kind[:60]!a} of {plan.api_version[:60]!a}")
        return plan
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"this is not a plan: {error}", where=where, hint="write one with: rebalancer plan -o json"
        ) from None


def read_policy(content: bytes, where: str) -> str:
    """The policy in a report, as YAML and without its secrets. Raises InputError when there is none."""
    return _extracted(content, where, "policy").decode("utf-8", "replace")


def _extracted(content: bytes, where: str, name: str) -> bytes:
    _, begins, after = content.partition(_ELEMENT.format(name).encode())
    data, ends, _ = after.partition(b"</script>")
    if not begins or not ends:
        raise InputError(
            f"this HTML holds no {name}", where=where, hint="write one with: rebalancer plan -o html"
        )
    decompressor = zlib.decompressobj()
    try:
        data = decompressor.decompress(base64.b64decode(data), MAX_PLAN_BYTES)
    except (zlib.error, binascii.Error) as error:
        raise InputError(f"the {name} in this report is damaged: {error}", where=where) from None
    if decompressor.unconsumed_tail:
        raise InputError(f"the {name} in this report is larger than {MAX_PLAN_BYTES} bytes", where=where)
    return data
