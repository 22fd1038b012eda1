"""When and of what a policy evicts: windows of time and label selectors."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import times
from rebalancer.errors import InputError
from rebalancer.policy.model import Selector
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.scopes import Blackout, Window, closed
from tests.rows import rows

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


def moment(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def window(begins: str, ends: str, **more: object) -> Window:
    return Window.model_validate({"from": begins, "to": ends, **more})


@rows(
    "begins, ends, more, when, holds",
    [
        ("09:00", "17:00", {}, "2026-06-01T09:00:00+00:00", True),
        ("09:00", "17:00", {}, "2026-06-01T16:59:59+00:00", True),
        ("09:00", "17:00", {}, "2026-06-01T17:00:00+00:00", False),
        ("22:00", "06:00", {}, "2026-06-01T23:00:00+00:00", True),
        ("22:00", "06:00", {}, "2026-06-01T05:59:00+00:00", True),
        ("22:00", "06:00", {}, "2026-06-01T12:00:00+00:00", False),
        ("22:00", "06:00", {"days": ["Sun"]}, "2026-06-01T05:00:00+00:00", True),
        ("22:00", "06:00", {"days": ["Mon"]}, "2026-06-01T05:00:00+00:00", False),
        ("00:00", "00:00", {"days": ["Mon"]}, "2026-06-01T12:00:00+00:00", True),
        ("02:00", "03:00", {"timeZone": "Europe/Berlin"}, "2026-07-01T00:30:00+00:00", True),
        ("02:00", "03:00", {"timeZone": "Europe/Berlin"}, "2026-01-01T01:30:00+00:00", True),
    ],
)
def test_a_window_holds_from_its_first_minute_to_its_last(
    begins: str, ends: str, more: dict[str, object], when: str, holds: bool
) -> None:
    assert window(begins, ends, **more).holds(moment(when)) is holds


def test_a_window_is_described_in_words() -> None:
    assert str(window("22:00", "06:00")) == "every day 22:00 to 06:00 UTC"
    assert str(window("22:00", "06:00", days=["Sat", "Sun"])) == "Sat, Sun 22:00 to 06:00 UTC"


@rows(
    "expressions, labels, selected",
    [
        ([], {}, True),
        ([{"key": "a", "operator": "In", "values": ["x"]}], {"a": "x"}, True),
        ([{"key": "a", "operator": "NotIn", "values": ["x"]}], {}, True),
        ([{"key": "a", "operator": "Exists"}], {}, False),
        ([{"key": "a", "operator": "DoesNotExist"}], {}, True),
    ],
)
def test_a_selector_selects_as_kubernetes_does(
    expressions: list[dict[str, object]], labels: dict[str, str], selected: bool
) -> None:
    selector = Selector.model_validate({"matchExpressions": expressions})
    assert selector.selects(labels) is selected


def test_a_selector_is_printed_as_kubectl_writes_it() -> None:
    expressions = [{"key": "b", "operator": "In", "values": ["x", "y"]}]
    selector = Selector.model_validate({"matchLabels": {"a": "1"}, "matchExpressions": expressions})
    assert str(selector) == "a=1,b In (x,y)"


@rows(
    "text, message",
    [
        ('evictable: {windows: [{from: "25:00", to: "06:00"}]}', "windows"),
        ('evictable: {windows: [{from: "22:00"}]}', "windows"),
        ('evictable: {windows: [{from: "22:00", to: "06:00", timeZone: Mars/Olympus}]}', "Mars/Olympus"),
        ('evictable: {windows: [{from: "22:00", to: "06:00", days: [Funday]}]}', "days"),
        ("evictable: {podSelector: {matchExpressions: [{key: a, operator: In}]}}", "needs values"),
        ("evictable: {podSelector: {matchLabel: {a: b}}}", "matchLabel"),
        ("hotNodes: {pools: [{name: gpu}]}", "nodeSelector"),
        ("planning: {weights: {priority: -1}}", "priority"),
        ("strategies: {misplacd: true}", "misplacd"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_policy(HEAD + text, "policy.yaml")

    assert "policy.yaml:3:" in str(caught.value)


@rows(
    "now, begins",
    [
        ("2026-11-22T12:00:00Z", "2026-11-23T00:00:00Z"),  # Sunday: on Monday at 1 in Berlin
        ("2026-11-23T12:00:00Z", "2026-11-24T00:00:00Z"),
        ("2026-11-24T12:00:00Z", "2026-11-30T00:00:00Z"),
        ("2026-03-28T12:00:00Z", "2026-03-29T23:00:00Z"),  # summer time has begun by then
    ],
)
def test_a_shut_window_says_when_it_begins_next(now: str, begins: str) -> None:
    shut = window("01:00", "05:00", days=["Mon", "Tue"], timeZone="Europe/Berlin")

    assert times.render(shut.next_begin(times.parse(now))) == begins


@pytest.mark.parametrize(
    ("begin", "end", "days", "begins"),
    [
        ("02:15", "02:30", ["Sat", "Sun", "Mon"], "2026-03-30T00:15:00Z"),  # no such time on Sunday
        ("02:15", "02:30", ["Sun"], "2026-04-05T00:15:00Z"),
        ("02:15", "04:00", ["Sun"], "2026-03-29T01:00:00Z"),  # at 3, as clocks are put forward
    ],
)
def test_a_window_within_the_hour_that_clocks_skip_does_not_begin_on_that_day(
    begin: str, end: str, days: list[str], begins: str
) -> None:
    shut = window(begin, end, days=days, timeZone="Europe/Berlin")

    assert times.render(shut.next_begin(times.parse("2026-03-28T12:00:00Z"))) == begins
    assert shut.holds(times.parse(begins))


@pytest.mark.parametrize(
    ("days", "meant"),
    [
        (["Mon-Fri"], "Mon-Fri"),
        (["Sat-Mon", "Wed"], "Sat, Sun, Mon, Wed"),
        (["Tue-Tue"], "Tue"),
    ],
)
def test_days_may_be_given_as_a_range(days: list[str], meant: str) -> None:
    assert str(window("22:00", "23:00", days=days)) == f"{meant} 22:00 to 23:00 UTC"


@rows(
    "begins, ends, when, holds",
    [
        ("12-24", "12-26", "2026-12-23T23:30:00+00:00", True),  # it is the 24th in Berlin
        ("12-24", "12-26", "2026-12-26T23:30:00+00:00", False),
        ("12-24", "01-02", "2027-01-02T12:00:00+00:00", True),
        ("12-24", "01-02", "2027-01-03T12:00:00+00:00", False),
        ("2026-12-24", "2027-01-02", "2027-01-01T12:00:00+00:00", True),
        ("2026-12-24", "2027-01-02", "2027-12-25T12:00:00+00:00", False),
        ("02-29", "02-29", "2028-02-29T12:00:00+00:00", True),
    ],
)
def test_a_blackout_holds_from_its_first_day_to_its_last(
    begins: str, ends: str, when: str, holds: bool
) -> None:
    found = Blackout.model_validate({"from": begins, "to": ends, "timeZone": "Europe/Berlin"})
    assert found.holds(moment(when)) is holds


@rows(
    "text, says",
    [
        ('{from: "2026-02-30", to: "2026-03-01"}', "day is out of range for month"),
        ('{from: "2026-03-02", to: "2026-03-01"}', "it ends on 2026-03-01, before it begins on 2026-03-02"),
        ('{from: "2026-03-02", to: 03-04}', "both of one year, or both of every year"),
        ("{from: christmas, to: 12-26}", "'christmas' is not a day; write e.g. 2026-12-24"),
    ],
)
def test_days_that_no_calendar_has_are_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_policy(f"{HEAD}evictable: {{blackouts: [{text}]}}", "policy.yaml")


@pytest.mark.parametrize("scope", ["{perRun: 3}", "{namespaces: [shop]}", "{namespaces: ['s?'], perRun: 1}"])
def test_a_limit_for_some_pods_says_which_and_how_many(scope: str) -> None:
    with pytest.raises(InputError, match=r"limits\.scoped\[0\]"):
        parse_policy(f"{HEAD}limits: {{scoped: [{scope}]}}", "policy.yaml")


_POOLS = st.sampled_from(
    ("", ", nodeSelector: {matchLabels: {pool: batch}}", ", nodeSelector: {matchLabels: {pool: web}}")
)
_HOURS = st.sampled_from(("00:00", "06:00", "12:00", "18:00"))
_WINDOWS = st.builds(
    lambda begin, end, pool: f'{{from: "{begin}", to: "{end}"{pool}}}', _HOURS, _HOURS, _POOLS
)
_BLACKOUTS = st.builds(lambda pool: f"{{from: 11-20, to: 11-25{pool}}}", _POOLS)


@given(
    windows=st.lists(_WINDOWS, max_size=3, unique=True),
    blackouts=st.lists(_BLACKOUTS, max_size=1),
    hour=st.integers(0, 23),
    labels=st.sampled_from(({}, {"pool": "batch"}, {"pool": "web"})),
)
def test_a_pod_on_a_node_of_unknown_labels_waits_wherever_it_would_by_any_labels(
    windows: list[str], blackouts: list[str], hour: int, labels: dict[str, str]
) -> None:
    text = f"evictable: {{windows: [{', '.join(windows)}], blackouts: [{', '.join(blackouts)}]}}"
    evictable = parse_policy(HEAD + text, "policy.yaml").policy.evictable
    now = dt.datetime(2026, 11, 18 + hour % 5, hour, 30, tzinfo=dt.UTC).timestamp()

    if closed(evictable, "shop", labels, now) is not None:
        assert closed(evictable, "shop", None, now) is not None
    opens = closed(evictable, "shop", None, now)
    if opens is not None and opens[1] is not None:
        assert closed(evictable, "shop", None, opens[1]) is None
