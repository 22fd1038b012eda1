from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.reporting.words import amounts, plain, sample, shortened, words


@given(st.text())
def test_no_text_can_move_the_cursor_or_turn_the_line_around(text: str) -> None:
    categories = {unicodedata.category(character) for character in plain(text)}

    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_an_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_an_escape_sequence_is_shown_instead_of_obeyed() -> None:
    assert plain("\x1b[31mred") == "\\x1b[31mred"


def test_a_message_of_many_lines_becomes_one() -> None:
    assert words("first\n  second\tthird ") == "first second third"


def test_a_cut_text_says_that_it_was_cut() -> None:
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"


def test_a_long_list_of_names_says_how_many_are_missing() -> None:
    assert sample(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_figures_are_named_in_one_order() -> None:
    assert amounts({"memory": 3.0, "cpu": 12.54}.items()) == "cpu 12.5, memory 3"
