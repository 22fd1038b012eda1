"""Unit tests lie where their module lies, and are named after it: tests/unit/planning/test_prepared_….py.

A folder may stand for a module that has several (tests/unit/service/service/), and what belongs to no module
of the program has folders of its own.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "tests" / "unit"
PROGRAM = ROOT / "rebalancer"
# These are about no module of the program: its manifests, pages, the embedded cluster, benchmarks.
OTHERS = frozenset({"architecture", "bench", "demo", "docs", "manifests"})


def names() -> frozenset[str]:
    """The modules of the program as paths: planning/prepared."""
    paths = (path.relative_to(PROGRAM).with_suffix("").as_posix() for path in PROGRAM.rglob("*.py"))
    return frozenset(path.replace("__main__", "main") for path in paths if not path.endswith("__init__"))


def has_a_module(test: Path, modules: frozenset[str]) -> bool:
    """Whether a module, or more of its name, is what a test's name begins with."""
    folder, words = test.parent.as_posix(), test.stem.removeprefix("test_").split("_")
    if folder in modules:
        return True
    within = "" if folder == "." else f"{folder}/"
    return any(f"{within}{'_'.join(words[:count])}" in modules for count in range(1, len(words) + 1))


def test_every_unit_test_lies_and_is_named_as_its_module() -> None:
    tests = [path.relative_to(UNIT) for path in UNIT.rglob("test_*.py")]
    modules = names()

    assert [
        str(test) for test in tests if test.parts[0] not in OTHERS and not has_a_module(test, modules)
    ] == []


def test_no_folder_of_tests_is_left_where_nothing_is_mirrored() -> None:
    folders = {path.parent.relative_to(UNIT) for path in UNIT.rglob("*.py")} - {Path()}
    packages = {path.parent.relative_to(PROGRAM) for path in PROGRAM.rglob("__init__.py")}

    assert [
        str(folder)
        for folder in sorted(folders)
        if folder.parts[0] not in OTHERS and folder not in packages and folder.as_posix() not in names()
    ] == []
