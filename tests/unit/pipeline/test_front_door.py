from __future__ import annotations

import pytest

from rebalancer import pipeline


@pytest.mark.parametrize("name", pipeline.__all__)
def test_every_name_of_the_front_door_leads_somewhere(name: str) -> None:
    assert callable(getattr(pipeline, name))


def test_a_name_that_the_front_door_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'make_plam'"):
        _ = pipeline.make_plam
