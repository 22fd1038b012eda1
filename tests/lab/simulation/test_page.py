"""A simulation as a page: what it shows, and that names in it do nothing."""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer_lab.simulation.page import simulation_page
from rebalancer_lab.simulation.tables import simulation_table
from tests.lab.simulation.simulations import a_simulation
from tests.unit.reporting.html.parsed import HOSTILE, Page


def test_the_page_of_a_simulation_compares_policies_before_and_after() -> None:
    text = Page(simulation_page(a_simulation())).words

    assert "Simulation: 2 cycles, every 10 min" in text
    assert "balanced (1) 2 1 0 2 → 1 2 → 0 89 → 70 20.0 → 12.5" in text
    assert "balanced (2)" in text, "policies of one name are numbered"
    assert "cycle 1: 2 hot nodes , 1 eviction" in text
    assert "… 10 more moves" in text


def test_a_figure_of_a_simulation_that_is_not_known_is_a_dash() -> None:
    run = a_simulation(runs=1).runs[0]
    unknown = replace(run.after, hot=None, over80=None, peak={}, deviation={})
    cycle = replace(run.cycles[0], hot=None)
    found = replace(a_simulation(), runs=(replace(run, cycles=(cycle,), after=unknown),))
    text = Page(simulation_page(found)).words

    assert "balanced 2 1 0 2 → - - → - 89 → - 20.0 → -" in text
    assert "cycle 1: hot nodes unknown , 1 eviction" in text


def test_less_than_a_minute_is_written_in_seconds() -> None:
    found = replace(a_simulation(), interval_seconds=1.0, lag_seconds=10.0)

    for text in (Page(simulation_page(found)).words, simulation_table(found).plain):
        assert "Simulation: 2 cycles, every 1 s" in text
        assert "metrics averaged over 10 s, seed 7" in " ".join(text.split())


def test_a_simulation_without_policies_is_a_page() -> None:
    assert "Simulation: 0 cycles" in Page(simulation_page(a_simulation(runs=0))).words


def test_hostile_names_add_no_element_and_load_nothing() -> None:
    page = simulation_page(a_simulation(HOSTILE, because=HOSTILE))
    parsed = Page(page)

    parsed.check_harmless()
    assert "{{ 7 * 7 }}" in parsed.text
    assert "\x1b" not in page
    assert "\u202e" not in page
