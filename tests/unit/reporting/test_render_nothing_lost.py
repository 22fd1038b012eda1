"""What is written for programs is read back as it was, but for secrets, whatever the cluster is called."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import msgspec
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.cli.invocation import JsonFormatter
from rebalancer.documents import parse
from rebalancer.execution.journal import Journal
from rebalancer.planning.plan import Plan, decode
from rebalancer.redaction import TERMINAL_CONTROLS, each_text, redacted, without_secrets
from rebalancer.reporting.render import to_json, to_jsonpath, to_yaml
from tests.unit.reporting.builders import a_move, a_plan

PIECES = ["http://", "https://10.0.0.1:6443", "@", "://", "bob:pw", "/", "?token=", "&", "Bearer abc.123456",
          ";password=", "pw", "Basic dXNlcjpwdw==", "?", "=", ";", "@host",
          "\"", "'", "\\", "\n", "\r", "\t", "{", "}", "[", "]", ",", ": ", "#", "- ", "|", "~", "yes", "0x1",
          "1e3", "\x00", "\x1b[2J", "\x7f", "\x85", "\x9b", "\u202e", "\u2028", "\ufeff", "é"]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=8
).map("".join)
VALUES = st.recursive(
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
TEAM = {"source": "https://10.0.0.1:6443", "policy": "team@prod", "x": ["a", "b@c"]}


def safe(value: Any) -> Any:
    return each_text(value, without_secrets)


@given(VALUES)
@example(TEAM)
@example({"a": "http://bob:x/word@host"})
def test_json_and_yaml_hold_what_was_written_but_secrets(value: Any) -> None:
    for text in (to_json(value), to_json(value, indent=2)):
        assert json.loads(text) == safe(value)
        assert not TERMINAL_CONTROLS.search(text)
    assert yaml.safe_load(to_yaml(value)) == safe(value)
    assert not TERMINAL_CONTROLS.search(to_yaml(value))
    assert to_jsonpath({"a": TEAM}, "{.a}") == to_json(TEAM)


@given(TEXTS)
def test_a_text_without_an_address_or_a_login_is_never_changed(text: str) -> None:
    if "://" not in text and "Bearer" not in text and "=" not in text:
        assert without_secrets(text) == text
        assert redacted({"a": [text]}) == {"a": [text]}


@given(TEXTS, TEXTS, TEXTS)
@example("https://10.0.0.1:6443", "team@prod", "a")
def test_a_plan_is_read_back_whatever_stands_in_its_texts(source: str, policy: str, why: str) -> None:
    plan = msgspec.structs.replace(a_plan(), source=source, policy=policy, warnings=(why, policy))
    expected = msgspec.convert(safe(msgspec.to_builtins(plan)), Plan)
    assert decode(to_json(plan).encode()) == expected
    assert decode(msgspec.json.encode(yaml.safe_load(to_yaml(plan)))) == expected


@given(TEXTS, TEXTS)
@example("see https://10.0.0.1:6443", "b@c")
def test_a_line_of_the_journal_holds_what_was_written_but_secrets(because: str, node: str) -> None:
    stream = io.StringIO()
    Journal(stream, "r", lambda: 0.0).write("evicted", a_move(), because=because, to=node)
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert (line.get("because", ""), line.get("to", "")) == (without_secrets(because), without_secrets(node))
    assert {"uid", "pod", "from", "wave", "event", "run", "time"} <= set(line)
    assert not TERMINAL_CONTROLS.search(text)


@given(TEXTS, TEXTS)
@example("see https://10.0.0.1:6443", "b@c")
def test_a_line_of_the_log_holds_what_was_written_but_secrets(message: str, field: str) -> None:
    record = logging.LogRecord("rebalancer", logging.INFO, "", 1, "%s", (message,), None)
    record.fields = {"node": field, "wave": 3, "path": _Shown(field)}
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == without_secrets(message)
    assert line["node"] == line["path"] == without_secrets(field)


class _Shown:
    """A value that is no JSON, and is written as its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_yaml_with_an_address_is_read_by_our_own_reader_too() -> None:
    assert parse(to_yaml(TEAM), "t").value == TEAM
