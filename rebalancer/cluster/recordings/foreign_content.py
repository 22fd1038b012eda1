"""What a file is that holds no list of Kubernetes objects: the usual mistakes.

A dump is made by hand, and what goes wrong then is nearly always one of a few things: kubectl printed an
error, a table or YAML, a shell wrote UTF-16, two answers went to one file. Each has its own remedy, which a
JSON parser's complaint about a byte does not show:

    Error from server (Forbidden): pods is forbidden
    -> holds an error that kubectl printed: Error from server ... (mend that, record it again)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from rebalancer.cluster.kinds import BY_NAME
from rebalancer.cluster.malformed import Encoded
from rebalancer.cluster.wire.json_items import Page

WRITE_IT_WITH = "write it with: kubectl get KIND -A -o json"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some Windows programs write before UTF-8

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_AS_UTF_8 = f"{WRITE_IT_WITH} | Out-File -Encoding utf8 FILE"
_ERROR = re.compile(rb"(?:Error from server|error:|Unable to connect|The connection to|No resources found)")
_TABLE = re.compile(rb"(?:NAMESPACE|NAME|LAST SEEN) {2,}[A-Z]|NAME[ \t]+[A-Z]")
_YAML = re.compile(rb"(?:---|[A-Za-z]+:(?: |\r?\n))")
_BYTE = re.compile(r" \(byte (\d+)\)")
_TRAILING = "trailing characters"
_FIRST_BYTES = 4096
_MAX_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file cannot be used and what to do about it."""

    message: str
    hint: str
    line: int = 0  # where in the file, from 1; 0 where that is not known
    column: int = 0

    def where(self, path: object) -> str:
        """The file, with the place in it where that is known."""
        return f"{path}:{self.line}:{self.column}" if self.line else str(path)


def _quoted(first: bytes) -> str:
    """The first line as text."""
    return first.splitlines()[0][:_MAX_QUOTED].decode("utf-8", "replace")


_SIGNS: tuple[tuple[Callable[[bytes], object], Callable[[bytes], tuple[str, str]]], ...] = (
    (
        lambda first: first.startswith(_UTF_16) or b"\0" in first[:2],
        lambda _: ("is UTF-16 text, as PowerShell's > writes it", _AS_UTF_8),
    ),
    (
        lambda first: not first.strip(),
        lambda _: ("is empty", f"kubectl printed nothing, or only an error; {WRITE_IT_WITH}"),
    ),
    (
        _ERROR.match,
        lambda first: (
            f"holds an error that kubectl printed: {_quoted(first)}",
            "mend that, record it again",
        ),
    ),
    (_TABLE.match, lambda _: ("is a table, as kubectl get prints it without -o json", WRITE_IT_WITH)),
    (
        lambda first: first.lstrip().startswith(b"<"),
        lambda _: ("is an HTML page, such as a login page of a proxy", WRITE_IT_WITH),
    ),
    (_YAML.match, lambda _: ("is YAML", f"of clusters only JSON is read; {WRITE_IT_WITH}")),
)


def foreign(first: bytes) -> Refusal | None:
    """What the file is by its first bytes; None when it may be JSON."""
    head = first[:_FIRST_BYTES]
    for matches, describe in _SIGNS:
        if matches(head):
            return Refusal(*describe(head))
    return None


def not_a_list(page: Page, content: bytes) -> Refusal:
    """Why JSON that is not a list of Kubernetes objects cannot be used."""
    kind = page.kind[:60]
    if kind == "Status":
        try:
            message = msgspec.json.decode(content, type=_Status).message
        except (ValueError, RecursionError):
            message = ""
        said = message[:_MAX_QUOTED] or "it does not say why"
        return Refusal(f"holds the API server's refusal, not a list: {said}", "mend that, record it again")
    if kind == "Table":
        return Refusal("holds a Table, as API servers print it for people, not a list", WRITE_IT_WITH)
    if kind in BY_NAME:
        return Refusal(f"holds one {kind}, not a list", WRITE_IT_WITH)
    what = (
        f"kind {kind!a} is not a list" if kind else "JSON without a kind is not a list of Kubernetes objects"
    )
    return Refusal(what, WRITE_IT_WITH)


class NoJsonError(ValueError):
    """An item of a list is not JSON; ``refusal`` says what it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def broken_json(error: Exception, content: bytes = b"") -> Refusal:
    """Why JSON could not be decoded; ``content`` is all of it, where the error's position counts in it."""
    if isinstance(error, NoJsonError):
        return error.refusal
    complaint, at = _position(error)
    line = content.count(b"\n", 0, at) + 1 if content and at >= 0 else 0
    column = at - content.rfind(b"\n", 0, max(at, 0))
    if complaint.endswith(_TRAILING) and content[at : at + 1] == b"{":
        return Refusal(
            "holds two JSON documents", "write each kubectl get to a file of its own", line, column
        )
    return Refusal(f"not JSON as kubectl writes it: {complaint}", "record it again", line, column)


def check_json(item: Encoded) -> None:
    """NoJsonError unless one item of a list is JSON: else how many objects it stands for is not known."""
    try:
        msgspec.json.decode(item, type=msgspec.Raw)
    except RecursionError:
        return  # nested deeper than any object, but one item all the same
    except msgspec.DecodeError as error:
        complaint, at = _position(error)
        if complaint.endswith(_TRAILING) and bytes(item)[at : at + 1] == b"]":
            two = Refusal("a second list follows the first", "write each kubectl get to a file of its own")
            raise NoJsonError(two) from error
        raise NoJsonError(Refusal(f"an item is not JSON: {complaint}", "record it again")) from error


def _position(error: Exception) -> tuple[str, int]:
    """What a decoder complains of, and at which byte; -1 where it does not say."""
    found = _BYTE.search(str(error))
    complaint = _BYTE.sub("", str(error))
    if found is None:
        return complaint, -1
    return complaint, int(found[1]) - complaint.endswith(
        _TRAILING
    )  # it counts the character it did not expect


class _Status(msgspec.Struct, gc=False):
    message: str = ""
