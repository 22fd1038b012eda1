from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Program


def test_a_configuration_that_cannot_be_used_is_refused_before_the_cluster_is_asked(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("kind: ConfigMap")

    result = rebalancer_program("shadow", str(file), "--kubeconfig", str(tmp_path / "none"))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {file}:1")
    assert len(result.stderr.splitlines()) == 1
