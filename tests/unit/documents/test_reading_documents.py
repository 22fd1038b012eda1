from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from rebalancer.documents import MAX_TEXT_BYTES, parse, read_text, to_yaml
from rebalancer.documents.models import did_you_mean, validate
from rebalancer.documents.reading import MAX_VALUES
from rebalancer.errors import InputError
from tests.rows import rows

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff\ufffe\uffff")
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.from_regex(r"[a-zA-Z0-9/._-]{1,9}", fullmatch=True), inner, max_size=4)
    ),
    max_leaves=12,
)


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    return str(caught.value)


@given(JSON)
def test_what_is_printed_parses_back_to_the_same_value(value: Any) -> None:
    assert parse(to_yaml(value), "f.yaml").value == value


@given(JSON)
def test_json_is_read_as_json(value: Any) -> None:
    assert parse(json.dumps(value, ensure_ascii=False), "f.json").value == value


def test_each_value_knows_its_line_and_column() -> None:
    document = parse("a:\n  b:\n  - c: 1\n    d: [x, z]\n", "f.yaml")
    assert document.position(("a", "b", 0, "d", 1)) == "f.yaml:4:12"
    assert document.position(("a", "b", 0, "d"), key=True) == "f.yaml:4:5"
    assert document.position(("a", "b", 0, "missing")) == "f.yaml:3:5"


def test_numbers_booleans_and_nulls_are_what_they_look_like() -> None:
    text = "[1, -2, 1.5, 1e3, .5, 0, true, False, ~, null, abc, '1', \"true\", 10m, 1.35.0, 80%]"
    assert parse(text, "f").value == [
        1, -2, 1.5, 1000.0, 0.5, 0, True, False, None, None, "abc", "1", "true", "10m", "1.35.0", "80%",
    ]  # fmt: skip


@rows("word", ["yes", "No", "ON", "off", "y", "N"])
def test_words_that_are_booleans_to_some_readers_are_refused(word: str) -> None:
    assert refusal(f"pause: {word}\n").startswith(
        f"f.yaml:1:8 pause: {word} is a boolean to some YAML readers (write "
    )


@rows(
    "scalar, what",
    [
        ("010", "octal"),
        ("0o17", "octal"),
        ("0x1F", "hexadecimal"),
        ("1_000", "number"),
        ("12:30:45", "base 60"),
        ("2024-01-02", "timestamp"),
        ("2024-01-02T03:04:05Z", "timestamp"),
        (".inf", "not a finite number"),
        (".NaN", "not a finite number"),
        ("1e999", "not a finite number"),
        ("9223372036854775808", "64 bits"),
        ("1" * 50, "too long"),
        ("=", "special meaning"),
    ],
)
def test_a_scalar_readers_disagree_about_is_refused_unless_quoted(scalar: str, what: str) -> None:
    assert what in refusal(f"a: {scalar}")
    assert parse(f"a: '{scalar}'", "f").value == {"a": scalar}


def test_a_key_given_twice_is_refused_with_the_line_of_the_first() -> None:
    assert (
        refusal("a:\n  b: 1\n  c: 2\n  b: 3\n")
        == "f.yaml:4:3 a.b: key b is already set on line 2 (keep only one)"
    )


def test_keys_must_be_text() -> None:
    assert refusal("1: a") == "f.yaml:1:1: key '1' is not text (quote it: \"1\")"
    assert "a key must be text" in refusal("? [a]\n: b\n")


def test_a_billion_laughs_is_refused_at_the_first_alias() -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))
    assert "alias *l0 is not supported" in refusal(f"l0: &l0 [x]\n{levels}")


def test_merge_keys_are_refused() -> None:
    assert "special meaning" in refusal("<<: {a: 1}")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5000, "- " * 5000 + "x"])
def test_deep_nesting_is_refused(text: str) -> None:
    assert "nested more than 64 levels deep" in refusal(text)


def test_large_text_is_refused() -> None:
    assert "is larger than" in refusal("a: " + "x" * MAX_TEXT_BYTES)


def test_more_values_than_any_document_needs_are_refused_where_they_begin() -> None:
    """Each has a position and may be a mistake, so half a million would take a gigabyte."""
    assert len(parse(f"[{'x,' * (MAX_VALUES - 1)}]", "f").value) == MAX_VALUES - 1
    assert (
        refusal(f"[{'x,' * MAX_VALUES}]") == f"f.yaml:1:{2 * MAX_VALUES}: holds more than {MAX_VALUES} values"
    )


@pytest.mark.parametrize("key", ["k" * 200_000, f"http://bob:{'p' * 5000}@host/"])
def test_an_error_shows_the_beginning_of_a_long_text_and_no_login(key: str) -> None:
    document = parse(f'? "{key}"\n: 1', "f.yaml")
    error = str(document.error((key,), f"{key} is unknown", hint=f"not {key}"))

    assert len(error) < 5000
    assert "pp" not in error


def test_several_documents_are_refused_where_the_second_begins() -> None:
    assert refusal("a: 1\n---\nb: 2\n").startswith("f.yaml:2:1: a second document starts here")


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!int", "!custom"])
def test_tags_are_refused(tag: str) -> None:
    assert "is not supported" in refusal(f"a: {tag} x")
    assert "is not supported" in refusal(f"a: {tag} [x]")


@rows("text", ["[", "a: b: c", "a: 'x", "\tx: 1", "a: \x00", "a: \ud800", "%YAML 9", "{a: 1", "]"])
def test_text_that_is_not_yaml_is_an_input_error_on_one_line(text: str) -> None:
    message = refusal(text)
    assert message.startswith("f.yaml")
    assert "\n" not in message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_never_a_crash(text: str) -> None:
    message = ""
    try:
        parse(text, "f.yaml")
    except InputError as error:
        message = str(error)
    assert "\n" not in message


def test_a_missing_binary_or_huge_file_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge").write_bytes(b"x" * 11)
    for name in ("absent", "binary", "huge"):
        with pytest.raises(InputError, match=name):
            read_text(tmp_path / name, largest=10)


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    weight: int = 1
    name: str


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    items: tuple[Inner, ...] = ()
    enabled: bool = False


def problem(text: str) -> str:
    with pytest.raises(InputError) as caught:
        validate(Outer, parse(text, "f.yaml"))
    return str(caught.value)


def test_an_unknown_field_is_pointed_at_with_its_nearest_name() -> None:
    assert problem("items:\n- name: a\n  wieght: 2\n") == (
        "f.yaml:3:3 items[0].wieght: unknown field (did you mean weight?)"
    )


def test_an_unknown_field_like_no_other_lists_the_known_ones() -> None:
    assert problem("zzz: 1") == "f.yaml:1:1 zzz: unknown field (known fields: enabled, items)"


def test_the_known_fields_of_a_part_are_listed_once_and_each_problem_is_a_line() -> None:
    with pytest.raises(InputError) as caught:
        validate(Outer, parse("zzz: 1\nyyy: 2\n", "f.yaml"))

    assert caught.value.lines == (
        "f.yaml:1:1 zzz: unknown field (known fields: enabled, items)",
        "f.yaml:2:1 yyy: unknown field",
    )


def test_every_problem_is_reported_in_the_order_of_the_file() -> None:
    assert problem("enabled: 3\nitems:\n- name: 1\n- {}\n") == (
        "f.yaml:1:10 enabled: should be a valid boolean, not 3; "
        'f.yaml:3:9 items[0].name: should be a valid string, not 1 (quote it: "1"); '
        "f.yaml:4:3 items[1].name: is required"
    )


def test_a_missing_field_is_named() -> None:
    assert problem("items: [{weight: 2}]") == "f.yaml:1:9 items[0].name: is required"


def test_types_are_strict() -> None:
    assert 'not "2"' in problem("items: [{name: a, weight: '2'}]")
    assert problem("items: [{name: 1.5}]").endswith('(quote it: "1.5")')
    for written in ("1.10", "true", "1e3", "+5"):  # as it stands there: "1.1" and "True" are other texts
        assert problem(f"items: [{{name: {written}}}]").endswith(f'not {written} (quote it: "{written}")')
    assert problem("items: {}") == "f.yaml:1:8 items: should be a list, not a mapping"
    assert problem("[]") == "f.yaml:1:1: should be a mapping, not a list"


def test_a_suggestion_ignores_case_and_is_absent_when_nothing_is_near() -> None:
    assert did_you_mean("mingain", ["minGain", "confidence"]) == "did you mean minGain?"
    assert did_you_mean("zzz", ["minGain"], fallback="sorry") == "sorry"
