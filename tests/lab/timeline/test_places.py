from pathlib import Path

import pytest

from rebalancer.errors import InputError, UnreachableError
from rebalancer_lab.timeline import places
from rebalancer_lab.timeline.tuning import blocks_of
from rebalancer_lab.timeline.workers import about_this
from tests.lab.timeline.recorded_days import EVERY, NOW, an_observation, pods_on, recorded

PODS = pods_on({"web-0": "a"})


def test_a_timeline_at_a_url_is_the_one_in_the_folder(tmp_path: Path) -> None:
    timeline = recorded(tmp_path / "days", *(an_observation(NOW + EVERY * at, PODS, {}) for at in range(12)))
    (tmp_path / "days" / "notes.txt").write_text("not of a timeline")
    url = f"file://{tmp_path}/days"
    copy = places.folder_of(url)

    assert sorted(path.name for path in copy.iterdir()) == sorted(
        path.name for path in (tmp_path / "days").glob("*.zst")
    )
    there, here = (blocks_of([place], 600.0, 2) for place in (url, str(tmp_path / "days")))
    assert {block.folder for block in there} == {url}
    assert [(block.begins, block.held_out) for block in there] == [
        (block.begins, block.held_out) for block in here
    ]
    assert timeline.moments()[0] == there[0].begins
    with pytest.raises(InputError, match="is named twice"):
        blocks_of([url, f"{url}/"], 600.0, 2)


def test_a_store_that_cannot_be_read_is_one_line_without_its_login(tmp_path: Path) -> None:
    for place in (f"file://{tmp_path}/absent", "s3x://user:secret@bucket/days", "http://user:secret@[/days"):
        with pytest.raises(UnreachableError) as raised:
            places.folder_of(place)
        assert "secret" not in str(raised.value)
        assert "\n" not in str(raised.value)
    assert "without" in about_this([f"file://{tmp_path}/absent"])
    assert "without" not in about_this([f"file://{tmp_path}"])
