from __future__ import annotations

import pytest

from rebalancer.cluster.wire.json_items import decode_head, decode_page


@pytest.mark.parametrize("items", ["[{}]", "[42]", '["a"]', "[{}, {}]"])
def test_every_item_of_a_list_counts_however_short(items: str) -> None:
    page = decode_page(f'{{"kind": "PodList", "items": {items}}}'.encode())

    assert len(page.items) == items.count(",") + 1


@pytest.mark.parametrize("items", ["null", "[]", "[ ]"])
def test_null_is_an_empty_list_as_go_writes_it(items: str) -> None:
    assert decode_page(f'{{"kind": "PodList", "items": {items}}}'.encode()).items == []


@pytest.mark.parametrize("items", ["true", '"ab"', "1234", "{}", ""])
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
