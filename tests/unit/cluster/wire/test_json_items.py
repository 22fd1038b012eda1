from __future__ import annotations

import msgspec
import pytest

from rebalancer.cluster.pod_classes import ClassIndex
from rebalancer.cluster.pods import RUNS
from rebalancer.cluster.records import ContainerState, ContainerStatus, EncodedPod, Metadata, PodStatus
from rebalancer.cluster.records.pods import ContainerStateTerminated
from rebalancer.cluster.wire import json_items
from rebalancer.cluster.wire.json_items import PodsInJson, as_written, decode_head, decode_page, header
from tests.rows import rows


@rows("items", ["[{}]", "[42]", '["a"]', "[{}, {}]"])
def test_every_item_of_a_list_counts_however_short(items: str) -> None:
    page = decode_page(f'{{"kind": "PodList", "items": {items}}}'.encode())

    assert len(page.items) == items.count(",") + 1


@pytest.mark.parametrize("items", ["null", "[]", "[ ]"])
def test_null_is_an_empty_list_as_go_writes_it(items: str) -> None:
    assert decode_page(f'{{"kind": "PodList", "items": {items}}}'.encode()).items == []


@rows("items", ["true", '"ab"', "1234", "{}", ""])
def test_items_that_are_no_list_are_refused(items: str) -> None:
    body = f'{{"kind": "PodList", "items": {items}}}' if items else '{"kind": "PodList"}'
    with pytest.raises(ValueError, match=r"items|array"):
        decode_page(body.encode())


def test_a_page_knows_its_version_and_where_the_list_goes_on() -> None:
    metadata = '{"resourceVersion": "7", "continue": "abc", "remainingItemCount": 3}'
    page = decode_page(f'{{"kind": "PodList", "metadata": {metadata}, "items": []}}'.encode())

    assert (page.resource_version, page.continue_token, page.is_list) == ("7", "abc", True)


def test_a_single_object_is_no_list() -> None:
    assert not decode_page(b'{"kind": "Pod", "metadata": {"name": "web-1"}}').is_list


def test_the_head_of_a_list_of_custom_resources_stands_behind_its_items() -> None:
    metadata = '"metadata":{"continue":"abc","resourceVersion":"7"}'
    body = f'{{"apiVersion":"example/v1","items":[{{"metadata":{{}}}}],"kind":"ThingList",{metadata}}}'
    head = decode_head(body.encode())

    assert (head.kind, head.resource_version, head.continue_token) == ("ThingList", "7", "abc")
    assert (head.is_list, head.items) == (True, [])


def test_the_head_of_a_list_is_read_without_looking_at_what_follows_it() -> None:
    metadata = '"metadata":{"resourceVersion":"7","continue":"abc"}'
    head = decode_head(f'{{"kind":"PodList","apiVersion":"v1",{metadata},"items":[{{not JSON'.encode())

    assert (head.kind, head.resource_version, head.continue_token) == ("PodList", "7", "abc")
    assert (head.is_list, head.items) == (True, [])


def test_what_stands_on_both_sides_of_the_items_is_its_head() -> None:
    head = decode_head(b'{"kind":"ThingList","items":[{}],"metadata":{"resourceVersion":"7"}}')
    assert (head.kind, head.resource_version) == ("ThingList", "7")


def test_an_object_tells_its_version_and_kind() -> None:
    assert header(b'{"apiVersion":"apps/v1","kind":"Deployment","spec":{}}') == ("apps/v1", "Deployment")


def test_a_long_list_holds_objects_alone_and_no_more_than_its_size_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def items_of(written: str) -> int:
        return len(decode_page(f'{{"kind":"PodList","items":{written}}}'.encode()).items)

    one, words = '[{"a":"12345678"}]', '["twenty characters..."]'
    monkeypatch.setattr(json_items, "_MAX_UNCHECKED_BYTES", len("[{},{}]"))
    assert items_of("[{},{}]") == 2  # no longer than what is not checked
    assert items_of(one) == 1  # one object in 18 bytes
    with pytest.raises(ValueError, match="more objects than its size"):
        items_of("[{},{},{}]")
    with pytest.raises(ValueError, match="object"):
        items_of(words)


def test_an_item_is_as_large_as_any_object_may_be_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"kind":"PodList","items":[{"a":"1234"}]}'
    monkeypatch.setattr(json_items, "_MAX_ITEM_BYTES", len('{"a":"1234"}'))
    assert len(decode_page(body).items) == 1
    monkeypatch.setattr(json_items, "_MAX_ITEM_BYTES", len('{"a":"1234"}') - 1)
    with pytest.raises(ValueError, match="larger than"):
        decode_page(body)


def written(spec: str, node: str = "a") -> bytes:
    return as_written(EncodedPod(spec=msgspec.Raw(spec.encode())), node, False)


@rows(
    "spec",
    [
        '{"containers":[],"nodeName":"NODE"}',
        '{"nodeName" : "NODE", "priority": 1}',
        '{"volumes":[{"name":"kube-api-access-TOKEN"}],"nodeName":"NODE"}',
        '{"volumes":[{"name":"kube-api-access-TOKEN","projected":{}}],"containers":[{"volumeMounts":[{"name":'
        '"kube-api-access-TOKEN","readOnly":true,"mountPath":"/t"}]}],"nodeName":"NODE"}',
        '{ "containers": [ { "volumeMounts": [ { "mountPath": "/t", "name": "kube-api-access-TOKEN",\n'
        '"readOnly": true } ] } ], "volumes": [ { "name": "kube-api-access-TOKEN",\n"projected": {} } ] }',
    ],
)
def test_pods_are_written_alike_that_differ_by_their_node_and_token_alone(spec: str) -> None:
    other = spec.replace("NODE", "b").replace("TOKEN", "fgh12")
    assert written(spec.replace("NODE", "a").replace("TOKEN", "abcde")) == written(other, "b")


@rows(
    "one, other, node",
    [
        ('{"nodeName":"a"}', '{"nodeName":"b"}', ""),
        ('{"nodeName":"a"}', '{"nodeName":"b"}', "c"),
        ('{"nodeName":["x","a"]}', '{"nodeName":["y","a"]}', "a"),
        (
            '{"nodeName":"a","nodeSelector":{"nodeName":"x"}}',
            '{"nodeName":"a","nodeSelector":{"nodeName":"y"}}',
            "a",
        ),
        ('{"nodeName":"a","priority":1}', '{"nodeName":"a","priority":2}', "a"),
        *(
            (spec.replace("TOKEN", "abcde"), spec.replace("TOKEN", "fgh12"), "a")
            for spec in (
                '{"nodeSelector":{"pool":"kube-api-access-TOKEN"}}',
                '{"nodeSelector":{"name":"kube-api-access-TOKEN"}}',
                '{"nodeSelector":{"kube-api-access-TOKEN":"x"}}',
                '{"volumes":[{"name":"kube-api-access-TOKEN","projected":{}}],'
                '"nodeSelector":{"pool":"kube-api-access-TOKEN"}}',
            )
        ),
    ],
)
def test_pods_that_differ_in_anything_else_are_never_written_alike(one: str, other: str, node: str) -> None:
    assert written(one, node) != written(other, node)


def test_an_ephemeral_container_runs_unless_its_state_says_otherwise() -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1))
    statuses = [ContainerStatus(name="new"), ContainerStatus(name="old", state=ended)]
    status = PodStatus(ephemeral_container_statuses=statuses)
    assert [*PodsInJson(ClassIndex()).ephemeral(status)] == [
        ("new", RUNS),
        ("old", ended),
    ]


def test_of_pods_that_resemble_no_other_no_more_are_remembered_than_their_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_items, "_MAX_KNOWN", 2)
    encoding = PodsInJson(ClassIndex())
    for number in range(5):
        restarted = PodStatus(container_statuses=[ContainerStatus(name="main", restart_count=number)])
        spec = msgspec.Raw(f'{{"priority":{number},"nodeName":"a"}}'.encode())
        pod = EncodedPod(Metadata(name=f"web-{number}"), spec, restarted)
        found, reports = encoding.class_and_reports(pod, "a", False)
        assert (found, [item.restarts for item in reports]) == (number, [number] if number else [])
        assert len(encoding._class_by_text) <= 2


def test_what_init_containers_have_been_through_is_reported_as_theirs() -> None:
    status = PodStatus(init_container_statuses=[ContainerStatus(name="setup", restart_count=2)])
    pod = EncodedPod(Metadata(name="web-1"), msgspec.Raw(b"{}"), status)
    (report,) = PodsInJson(ClassIndex()).class_and_reports(pod, "", False)[1]
    assert (report.name, report.init, report.restarts) == ("setup", True, 2)
