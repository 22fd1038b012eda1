"""Where everything is installed, a test that is skipped fails: nobody reads of it otherwise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = """
import pytest

@pytest.mark.skipif(True, reason="no such program")
def test_marked(): pass

def test_called(): pytest.skip("not there")

@pytest.mark.xfail(reason="known")
def test_expected_to_fail(): assert False

def test_that_passes(): pass
"""


@pytest.mark.parametrize(("no_skips", "counted"), [("", "1 passed, 2 skipped"), ("1", "1 failed, 1 passed")])
def test_a_skipped_test_fails_where_none_may_be(tmp_path: Path, no_skips: str, counted: str) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    alone = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**os.environ, "REBALANCER_NO_SKIPS": no_skips, **alone}
    ended = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert counted in ended.stdout, ended.stdout + ended.stderr
    assert bool(ended.returncode) is bool(no_skips)
    assert len(re.findall("no test may be skipped here", ended.stdout)) >= (2 if no_skips else 0)


def test_ci_allows_no_skip_unless_something_could_not_be_installed() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert "export REBALANCER_NO_SKIPS=1" in script
    assert script.count("unset REBALANCER_NO_SKIPS") == 1
    assert "chromium" in script
