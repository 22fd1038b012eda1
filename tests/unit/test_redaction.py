from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.documents import parse, redacted_text
from rebalancer.errors import InputError
from rebalancer.redaction import (
    REDACTED,
    each_text,
    is_secret,
    redacted,
    safe_json,
    without_controls,
    without_secrets,
)
from tests.rows import rows


@rows(
    "key",
    [
        "token",
        "bearerToken",
        "bearer_token",
        "password",
        "Authorization",
        "clientSecret",
        "apiKey",
        "keyData",
    ],
)
def test_secrets_are_known_by_their_keys(key: str) -> None:
    assert is_secret(key)
    assert redacted({key: {"a": ["x", 5, True]}}) == {key: {"a": ["REDACTED", "REDACTED", True]}}


@rows("key", ["tokenFile", "passwordFile", "name", "key", "topologyKey", "weight"])
def test_paths_and_other_keys_are_kept(key: str) -> None:
    assert redacted({key: "x"}) == {key: "x"}


def test_the_values_of_http_headers_are_secrets_whatever_they_are_called() -> None:
    assert redacted({"headers": {"X-Scope-OrgID": "north"}}) == {"headers": {"X-Scope-OrgID": REDACTED}}


def test_pairs_of_name_and_value_count_as_keys() -> None:
    assert redacted([{"name": "DB_PASSWORD", "value": "x"}]) == [{"name": "DB_PASSWORD", "value": "REDACTED"}]


@rows(
    "text, safe",
    [
        ("GET https://bob:pw@host/x", "GET https://REDACTED@host/x"),
        ("https://bob:p@w@host", "https://REDACTED@host"),
        ("https://host/q?a=1&access_token=abc&b=2", "https://host/q?a=1&access_token=REDACTED&b=2"),
        ("Authorization: Bearer abc.def-12345", "Authorization: Bearer REDACTED"),
        ("docker-pullable://nginx@sha256:0123", "docker-pullable://nginx@sha256:0123"),
        ("https://host/a@b?c=d", "https://host/a@b?c=d"),
    ],
)
def test_urls_lose_their_logins_and_nothing_else(text: str, safe: str) -> None:
    assert without_secrets(text) == safe
    assert str(InputError("refused", where=text)) == f"{safe}: refused"


def test_a_text_without_secrets_stays_as_it_is() -> None:
    text = "# a comment\nname: x # another\nargs: {tokenFile: /run/token}\n"
    assert redacted_text(text, "t") == text


@rows(
    "text",
    [
        "a: 1\n# token: hidden-word\n",
        "token: hidden-word\n",
        '{"a": {"password": "hidden-word"}}',
        "inline: |\n  token: hidden-word\n  a: 1\n",
        "url: https://a:hidden-word@b\n",
    ],
)
def test_a_secret_leaves_the_text_wherever_it_stands_and_the_rest_stays(text: str) -> None:
    safe = redacted_text(text, "t")

    assert "hidden-word" not in safe
    assert parse(safe, "t").value.keys() == parse(text, "t").value.keys()
    assert redacted_text(safe, "t") == safe


SECRETS = (
    "https://bob:hunter2@host/path",
    "postgres://bob:hunter2@host",
    "/path?token=hunter2",
    "a;password=hunter2",
    "x&sig=hunter2",
    "Bearer hunter2.hunter2",
    "Basic hunter2=hunter2",
)


@rows("text", SECRETS)
def test_json_shows_no_secret_wherever_it_stands(text: str) -> None:
    plain = ["a", {"b": "c", "d": ["e", {"f": 1}]}, 2.5, None]
    places = [
        text,
        [*plain, text],
        {"before": plain, text: plain},
        {"before": plain, "deep": [plain, {"deeper": [[plain, [{"here": text}]]]}], "after": plain},
        {"extenders": [{"urlPrefix": text, "weight": 1}, {"urlPrefix": "https://host", "weight": 2}]},
        ({"a": (text, "b")},),
    ]
    for value in places:
        for indent in (0, 2):
            shown = safe_json(value, indent=indent)
            assert "hunter2" not in shown
            assert REDACTED in shown


def test_json_of_a_struct_with_an_extender_shows_no_secret_of_its_address() -> None:
    class Extender(msgspec.Struct):
        address: str

    class Holder(msgspec.Struct):
        names: tuple[str, ...]
        extenders: tuple[Extender, ...]

    shown = safe_json(Holder(("a",) * 50, (Extender("a"), Extender("https://bob:hunter2@host"))))
    assert "hunter2" not in shown
    assert "https://REDACTED@host" in shown


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text() | st.sampled_from(SECRETS),
        lambda part: (
            st.lists(part, max_size=3)
            | st.dictionaries(st.text() | st.sampled_from(SECRETS), part, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_json_is_that_of_the_value_whose_every_text_is_without_secrets(value: object) -> None:
    plain = each_text(msgspec.to_builtins(value, order="deterministic"), without_secrets)
    assert safe_json(value) == without_controls(msgspec.json.encode(plain).decode())


def test_json_of_numbers_as_keys_is_that_of_their_digits() -> None:
    assert safe_json({2: "b", 1: "a"}) == '{"1":"a","2":"b"}'
