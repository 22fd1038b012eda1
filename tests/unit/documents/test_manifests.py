"""Files that are written for kubectl are read as kubectl reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.documents.manifests import parse_manifests, resolve_as_kubectl
from rebalancer.errors import InputError
from tests.rows import rows


def values_of(text: str) -> list[Any]:
    return [document.value for document in parse_manifests(text, "file")]


# What sigs.k8s.io/yaml v1.6.0 makes of plain scalars, by goyaml.v2/resolve.go.
@rows(
    "text, value",
    [
        ("0755", 493),
        ("0o755", 493),
        ("-07", -7),
        ("0x1F", 31),
        ("0b11", 3),
        ("08", 8.0),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("12", 12),
        ("yes", True),
        ("on", True),
        ("Y", True),
        ("No", False),
        ("off", False),
        ("n", False),
        ("~", None),
        ("", None),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("2024-01-02", "2024-01-02"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("10.0.0.0/8", "10.0.0.0/8"),
    ],
)
def test_plain_scalars_are_those_of_go_yaml(text: str, value: Any) -> None:
    resolved = resolve_as_kubectl(text)

    assert resolved == value
    assert type(resolved) is type(value)


def test_a_file_holds_several_documents_of_which_empty_ones_do_not_count() -> None:
    assert values_of("---\n# nothing\n---\na: 1\n---\nb: 2\n---\n") == [{"a": 1}, {"b": 2}]


def test_quoted_and_tagged_text_stays_text() -> None:
    assert values_of("a: '0755'\nb: \"yes\"\nc: !!str 12\nd: !!int 12\n") == [
        {"a": "0755", "b": "yes", "c": "12", "d": 12}
    ]


def test_keys_that_are_no_text_are_written_as_text() -> None:
    assert values_of("8080: a\ntrue: b\n0755: c\n") == [{"8080": "a", "true": "b", "493": "c"}]


def test_aliases_stand_for_what_their_anchors_hold() -> None:
    text = "a: &a {x: &x [1, 2], z: 3}\nb: *a\nc: [*x, *a]\n"

    whole = {"x": [1, 2], "z": 3}
    assert values_of(text) == [{"a": whole, "b": whole, "c": [[1, 2], whole]}]


def test_an_alias_within_an_anchored_part_is_part_of_it() -> None:
    assert values_of("a: &a [1]\nb: &b {x: *a, z: *a}\nc: *b\n")[0]["c"] == {"x": [1], "z": [1]}


def test_a_merge_key_adds_what_the_mapping_does_not_have_itself() -> None:
    text = "a: &a {x: 1, v: 2}\nb: &b {x: 5, z: 6}\nc: {<<: *a, v: 9}\nd: {v: 9, <<: [*a, *b]}\n"

    assert values_of(text)[0]["c"] == {"x": 1, "v": 9}
    assert values_of(text)[0]["d"] == {"x": 1, "v": 9, "z": 6}


def test_a_mistake_in_what_an_alias_stands_for_is_shown_where_it_is_written() -> None:
    (document,) = parse_manifests("a: &a\n  x: 1\nb: *a\n", "file")

    assert str(document.error(("b", "x"), "is wrong")).startswith("file:2:6")


@rows(
    "text, words",
    [
        ("a: *nothing\n", "file:1:4 a: alias *nothing stands for nothing that is complete before it"),
        ("a: &a [*a]\n", "alias *a stands for nothing"),
        ("a: &a 1\n---\nb: *a\n", "alias *a stands for nothing"),
        ("a: {<<: 1}\n", "a merge key takes a mapping"),
        ("a: 1\na: 2\n", "key a is already set on line 1"),
        ("a: !Ref b\n", "tag !Ref is not supported"),
        ("a: {{ .Values.x }}\n", "render it first, e.g. helm template CHART"),
    ],
)
def test_what_no_reader_could_use_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_manifests(text, "file")

    assert words in str(caught.value)


def test_aliases_that_stand_for_ever_more_end_at_a_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 9):
        aliases = ", ".join([f"*a{number - 1}"] * 10)
        lines.append(f"a{number}: &a{number} [{aliases}]")

    with pytest.raises(InputError, match="holds more than 50000 values"):
        parse_manifests("\n".join(lines), "file")


TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_is_read_as_json(value: Any) -> None:
    documents = values_of(json.dumps(value, ensure_ascii=False))

    assert documents == ([] if value is None else [value])
