from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from urllib3.util import parse_url

from rebalancer.addresses import checked_address, checked_path
from rebalancer.cluster.live.client import KubernetesClient, object_path
from rebalancer.cluster.live.login import Login
from rebalancer.errors import InputError
from rebalancer.http import pool
from rebalancer.load.plugin_sources import url_of
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection
from rebalancer.load.services import fetch_watcher, service_of
from rebalancer.policy.load_sources import LoadWatcher, PrometheusAddress
from rebalancer.policy.policy_file import parse_policy
from tests.rows import rows

SERVICE = "http://watcher.monitoring:2020"
LEADS_OUT = [
    "/..",
    "/../x",
    "/a/../../x",
    "/%2e%2e/x",
    "/%2E./x",
    "/%252e%252e/x",
    "/a\\..\\x",
    "/a%5c..%5cx",
]
LEADS_OUT += ["/..;a=b/x", "/a/%2e/b", "/%252525252e/x", "/a%00b", "/a%0d%0ab", "/a%2f..%2fb"]


@rows("path", LEADS_OUT)
def test_an_address_that_leads_out_of_its_service_is_refused_wherever_it_is_named(path: str) -> None:
    address = SERVICE + path
    with pytest.raises(ValueError, match=r"leads out of the service|encoded too often"):
        checked_address(address)
    for model in (TypeAdapter(PrometheusAddress).validate_python, lambda a: LoadWatcher(address=a)):
        with pytest.raises(ValidationError):
            model(address)
    for use in (
        url_of,
        lambda a: fetch_watcher(None, a),
        lambda a: LivePrometheus(Connection(a), None, 0.0),
    ):
        with pytest.raises(InputError):
            use(address)
    assert service_of(address) is None


@pytest.mark.parametrize("name", ["..", "."])
def test_no_name_of_an_object_leads_to_another_path_of_the_api_server(name: str) -> None:
    client = KubernetesClient(Login("http://127.0.0.1:1", pool()))
    for path in (object_path("v1", "shop", "pods", name), "/api/v1/namespaces/a/%2e%2e/x"):
        with pytest.raises(InputError, match="leads to another"):
            client.send("GET", path, max_bytes=1)


@rows("path", ["", "/", "/prefix", "//a//b/", "/a..b/...", "/a%20b", "/a%2Fb", "/~x/@y"])
def test_other_paths_are_kept(path: str) -> None:
    assert checked_path(path) == re.sub("/+", "/", path).strip("/")


@given(
    st.lists(st.text(st.sampled_from("./\\%2e5cf;aé"), max_size=8), max_size=6).map("/".join),
    st.integers(0, 3),
)
def test_what_is_not_refused_stays_below_its_prefix_in_every_transport(path: str, encodings: int) -> None:
    for _ in range(encodings):
        path = quote(path)
    try:
        kept = checked_path(path)
    except ValueError:
        return
    prefix = "/api/v1/namespaces/n/services/s/proxy/"
    for sent in (kept, quote(kept), quote(kept, safe="/%")):
        asked = parse_url(f"http://host{prefix}{sent}").path or ""
        assert asked.startswith(prefix)
        assert ".." not in asked.replace("...", "").split("/")


@rows("source", ["prometheus", "loadWatcher"])
@rows("address", ["http://bob:x/hidden@host", "http://bob:x?hidden@host", "http://bob:1/hidden@h:1"])
def test_a_login_that_is_not_encoded_is_refused_without_being_shown(address: str, source: str) -> None:
    policy = (
        "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nload: {sources: [{%s: {address: '%s'}}]}\n"
    )
    with pytest.raises(InputError) as refused:
        parse_policy(policy % (source, address), "policy.yaml")
    assert "hidden" not in str(refused.value)
    assert urlsplit(checked_address("http://bob:pw@watcher.monitoring")).hostname == "watcher.monitoring"
