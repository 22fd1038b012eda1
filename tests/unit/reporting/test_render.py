from __future__ import annotations

import csv
import json
from typing import Any

import msgspec
import pandas as pd
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rebalancer import analysis
from rebalancer.planning.plan import decode, encode
from rebalancer.reporting.render import to_csv, to_json, to_yaml
from tests.rows import rows
from tests.unit.reporting.builders import a_kept, a_move, a_plan

texts = st.text(st.characters(exclude_categories=["Cs"]))
documents: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
    max_leaves=20,
)


def test_a_plan_in_json_is_its_own_encoding_and_one_newline() -> None:
    assert to_json(a_plan()).encode() == encode(a_plan()) + b"\n"


def test_a_plan_in_json_reads_back_as_the_same_plan() -> None:
    plan = a_plan(kept=(a_kept("a\u202eb\x9b", because="é → \x7f"),))

    assert decode(to_json(plan).encode()) == plan


@given(documents)
def test_json_reads_back_and_holds_nothing_a_terminal_obeys(value: Any) -> None:
    text = to_json(value)

    assert json.loads(text) == value
    assert not set(text[:-1]) & {"\x1b", "\x9b", "\x7f", "\u202e", "\u2066", "\n"}


@given(documents)
def test_yaml_holds_the_data_of_the_json(value: Any) -> None:
    text = to_yaml(value)

    assert yaml.safe_load(text) == json.loads(to_json(value))
    assert not set(text) & {"\x1b", "\x9b", "\x7f", "\u202e", "\u2066"}


def test_a_plan_in_yaml_is_the_same_data() -> None:
    assert yaml.safe_load(to_yaml(a_plan())) == json.loads(msgspec.json.encode(a_plan()))


def test_json_for_people_is_indented_and_the_same_data() -> None:
    assert to_json({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}\n'


@rows("name", ["=cmd|' /C calc'!A1", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "＝1+1"])
def test_names_that_are_formulas_are_text_in_the_csv_of_a_plan(name: str) -> None:
    plan = a_plan(moves=(a_move(name, to=(name,)),), kept=(a_kept(name, because=name),))

    for frame in (analysis.moves(plan), analysis.landings(plan), analysis.kept(plan)):
        rows = list(csv.DictReader(to_csv(frame).splitlines()))
        cells = [value for row in rows for key, value in row.items() if key in ("pod", "node", "reason")]
        assert any(cell.endswith(name.strip()[1:]) for cell in cells)
        assert not any(cell.startswith(("=", "+", "-", "@", "＝")) for cell in cells)


def test_times_and_truth_values_of_csv_are_written_as_in_json() -> None:
    moments = pd.to_datetime(pd.Series([1.5e9, 1.5e9 + 0.25, None]), unit="s", utc=True)
    frame = pd.DataFrame({"at": moments, "hot": [True, False, True], "after": [None, True, False]})

    assert to_csv(frame).splitlines()[1:] == [
        "2017-07-14T02:40:00Z,true,",
        "2017-07-14T02:40:00.250000Z,false,true",
        ",true,false",
    ]


@given(texts)
def test_a_cell_of_csv_holds_neither_a_formula_nor_what_a_terminal_obeys(text: str) -> None:
    cell = next(csv.reader(to_csv(pd.DataFrame({"name": [text], "number": [1.5]})).splitlines()[1:]))[0]

    assert not cell.startswith(("=", "+", "-", "@"))
    assert cell.isprintable()
