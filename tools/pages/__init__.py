"""Pages of docs/ and parts of the chart that are generated from the tables of the program.

A test compares each with what would be generated now; ``make pages`` renews all of them.
"""

from pathlib import Path


def renewed(root: Path) -> dict[Path, str]:
    """What each generated file of a checkout should hold, by its path."""
    from tools.pages import (  # noqa: PLC0415 - heavy
        architecture,
        chart,
        dashboard,
        excess,
        outputs,
        policy_keys,
        protections,
        scheduling,
    )

    folder = root / chart.CHART
    return {
        root / "docs" / "outputs.md": outputs.outputs_page(),
        root / "docs" / "policy.md": policy_keys.policy_page(),
        root / "docs" / "protections.md": protections.protections_page(),
        root / "docs" / "pictures" / "architecture.svg": architecture.architecture_picture(),
        root / "docs" / "pictures" / "excess.svg": excess.excess_picture(),
        root / "docs" / "scheduling-model.md": scheduling.scheduling_page(),
        root / "tests" / "conformance" / "RULES.md": scheduling.versions_page(),
        folder / "values.yaml": chart.values(root),
        folder / "values.schema.json": chart.values_schema(root),
        folder / "files" / "dashboard.json": dashboard.dashboard(),
        **{folder / "files" / name: text for name, text in chart.copies(root).items()},
    }
