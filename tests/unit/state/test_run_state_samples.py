from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.state import run_state
from rebalancer.state.run_state import (
    MAX_BYTES,
    MAX_SAMPLE_BYTES,
    MAX_SAMPLES,
    LoadSamples,
    RunState,
    after_reading,
    bounded_samples,
    decode,
    encode,
    with_sample,
)

LOADS = st.dictionaries(
    st.sampled_from(("cpu", "memory", "disk")),
    st.dictionaries(st.sampled_from(("n0", "n1", "n2")), st.floats(0, 300), min_size=1),
    min_size=1,
)


@given(st.lists(LOADS, max_size=6))
def test_samples_say_what_each_run_read_of_each_node(loads: list[dict[str, dict[str, float]]]) -> None:
    samples = LoadSamples()
    for moment, percent in enumerate(loads):
        samples = with_sample(samples, float(moment), percent, 1e9)

    names = {node for percent in loads for found in percent.values() for node in found}
    for node in names:
        for resource in ("cpu", "memory", "disk"):
            expected = [
                (float(moment), round(percent[resource][node], 1))
                for moment, percent in enumerate(loads)
                if node in percent.get(resource, {})
            ]
            column = samples.nodes.index(node)
            kept = [(sample.at, sample.percent.get(resource, ())) for sample in samples.taken]
            found = [(at, values[column]) for at, values in kept if len(values) > column]
            assert [(at, value) for at, value in found if value is not None] == expected


def test_a_sample_older_than_the_window_is_forgotten() -> None:
    samples = LoadSamples()
    for moment in (0.0, 300.0, 600.0, 901.0):
        samples = with_sample(samples, moment, {"cpu": {"n0": 50.0}}, 900.0)

    assert [sample.at for sample in samples.taken] == [300.0, 600.0, 901.0]


def test_samples_of_the_largest_cluster_fit_the_state_beside_everything_else() -> None:
    percent = {
        resource: {f"node-with-a-long-name-{number:05d}": 99.9 for number in range(5000)}
        for resource in ("cpu", "memory")
    }
    state: RunState | None = None
    for moment in range(10):
        state = after_reading(state, percent, 60.0 * moment, 900.0)
    assert state is not None

    assert len(encode(state)) <= MAX_BYTES
    assert len(msgspec.json.encode(state.samples)) <= MAX_SAMPLE_BYTES + 100
    assert len(bounded_samples(state.samples).taken) <= MAX_SAMPLES


def test_a_sample_added_twice_by_a_write_that_was_repeated_counts_once() -> None:
    once = after_reading(None, {"cpu": {"n0": 10.0}}, 100.0, 900.0)

    assert after_reading(once, {"cpu": {"n0": 10.0}}, 100.0, 900.0) == once


def test_a_state_with_samples_is_read_back_as_it_was_written() -> None:
    state = after_reading(None, {"cpu": {"n0": 10.0}, "disk": {"n0": 1.5}}, 100.0, 900.0)

    assert decode(encode(state), "test") == state


def test_a_run_whose_sources_look_back_themselves_keeps_no_samples() -> None:
    state = after_reading(None, {"cpu": {"n0": 10.0}}, 100.0, 900.0)

    assert after_reading(state, {}, 200.0, 900.0).samples == LoadSamples()


def test_a_load_beyond_belief_is_kept_as_the_highest_that_a_state_may_hold() -> None:
    samples = with_sample(LoadSamples(), 300.0, {"cpu": {"n0": 1e12}}, 900.0)
    assert samples.taken[0].percent["cpu"] == (1e9,)


def test_samples_fill_their_room_to_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = LoadSamples()
    for moment in (300.0, 600.0):
        samples = with_sample(samples, moment, {"cpu": {"n0": 50.0}}, 900.0)
    whole = sum(len(msgspec.json.encode(part)) + 1 for part in samples.taken)
    whole += len(msgspec.json.encode(samples.nodes))

    monkeypatch.setattr(run_state, "MAX_SAMPLE_BYTES", whole)
    assert bounded_samples(samples) == samples
    monkeypatch.setattr(run_state, "MAX_SAMPLE_BYTES", whole - 1)
    assert bounded_samples(samples).taken == samples.taken[1:]
