"""The layout: folders of peers, no import cycles, a page that names every package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from rebalancer.cli.program import COMMANDS
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.scheduling import Plugin
from rebalancer.scheduling import plugins as plugin_folder
from rebalancer.scheduling.registry import MODELLED

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "rebalancer"
MIN_MODULES = 3  # of one folder, besides its __init__; subfolders count


def modules() -> list[Path]:
    return [path for path in PROGRAM.rglob("*.py") if path.name != "__init__.py"]


def packages() -> set[str]:
    return {str(path.parent.relative_to(ROOT)) for path in PROGRAM.rglob("__init__.py")}


def features() -> set[str]:
    """A feature is one file, however short it is: found in its folder, or named by one line of a registry."""
    commands = {command.partition(":")[0] for command in COMMANDS.values()}
    declared = {item.__module__ for item in (*STRATEGIES, *MODELLED.values())}
    return {f"{name.replace('.', '/')}.py" for name in commands | declared}


def test_a_folder_holds_at_least_three_modules() -> None:
    sizes = {
        package: sum(
            entry.stem != "__init__" and not entry.name.startswith("_")
            for entry in entries_of(ROOT / package)
        )
        for package in packages()
    }

    assert {package: size for package, size in sizes.items() if size < MIN_MODULES} == {}


def entries_of(folder: Path) -> list[Path]:
    """The modules and subfolders of a folder."""
    return [entry for entry in folder.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()]


def test_a_module_that_no_other_imports_is_a_feature_that_is_found_by_its_name() -> None:
    """What nobody imports is dead, or found by an import that nobody sees: these are few, and named here."""
    graph = grimp.build_graph("rebalancer", exclude_type_checking_imports=False, cache_dir=None)
    names = {str(path.relative_to(ROOT)): path for path in modules()}
    alone = {
        name
        for name in names
        if not graph.find_modules_that_directly_import(name.removesuffix(".py").replace("/", "."))
    }
    unseen = re.compile(r"import_module|__import__|resolve_name|spec_from_|run_module|run_path")
    finding = {name for name, path in names.items() if unseen.search(path.read_text())}

    assert alone - features() == {"rebalancer/__main__.py"}
    assert finding == {
        "rebalancer/cli/groups.py",  # commands
        "rebalancer/policy/strategies.py",  # the registry of strategies
        "rebalancer/scheduling/registry.py",  # plugins of the model
    }


def test_no_two_features_have_one_name() -> None:
    """The policy and the catalogue know strategies and plugins by their names: of two one would be lost."""
    plugins = {
        item for item in every_subclass(Plugin) if item.__module__.startswith(f"{plugin_folder.__name__}.")
    }
    named = [item.name for item in plugins if "name" in vars(item)] + [item.name for item in STRATEGIES]

    assert sorted(named) == sorted(set(named))
    assert len(named) > 30


def every_subclass(kind: type[Plugin]) -> Iterator[type[Plugin]]:
    for item in kind.__subclasses__():
        yield from (item, *every_subclass(item))


@pytest.mark.parametrize("package", ["rebalancer", "rebalancer_demo"])
def test_no_modules_import_each_other_in_a_cycle_even_for_type_checking(package: str) -> None:
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)}

    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_package_has_a_front_door_that_says_what_lives_there() -> None:
    doors = [PROGRAM.parent / package / "__init__.py" for package in packages()]

    assert [str(door) for door in doors if not door.read_text().startswith('"""')] == []


def offered(door: Path) -> set[str]:
    """The names in ``__all__`` of a package."""
    for node in ast.parse(door.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_a_package_offers_no_name_that_nobody_takes() -> None:
    """A name is taken by importing it, or with its package: ``records.Pod``."""
    doors = {".".join(door.parent.relative_to(ROOT).parts): door for door in PROGRAM.rglob("__init__.py")}
    del doors[
        "rebalancer.cluster.records"
    ]  # the decoder of protobuf finds a record there by its message's name
    wanted = {package: names for package, door in doors.items() if (names := offered(door))}
    for folder in ("rebalancer", "demo", "tools", "tests", "bench", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            for package, names in wanted.items():
                if path == doors[package] or package.rpartition(".")[2] not in text:
                    continue
                for imported in re.findall(rf"from {package} import (\([^)]*\)|.*)", text):
                    names -= set(re.findall(r"\w+", imported))
                names -= set(re.findall(rf"\b{package.rpartition('.')[2]}\.(\w+)", text))

    assert {package: sorted(names) for package, names in wanted.items() if names} == {}


def folders_with_a_row() -> set[str]:
    """The folders that docs/architecture.md has a row for."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    return {folder.rstrip("/") for folder in re.findall(r"^\| `([a-z0-9_/]+/)` \|", page, re.MULTILINE)}


def test_the_architecture_page_names_every_package_and_no_other() -> None:
    rows = {folder for folder in folders_with_a_row() if folder.split("/")[0] == "rebalancer"}

    assert rows == packages(), sorted(rows ^ packages())


def test_the_architecture_page_names_every_other_folder_and_no_other() -> None:
    ignored = set((ROOT / ".gitignore").read_text().replace("/", "").split())
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}

    rows = {folder for folder in folders_with_a_row() if folder.split("/")[0] != "rebalancer"}

    assert rows == folders - ignored - {"rebalancer"}


def test_questions_about_a_path_that_may_fail_are_asked_in_one_module() -> None:
    """Before Python 3.14 ``exists`` and its like raise for a name that is too long or a closed folder.

    ``home`` raises for a user that the system does not know.
    """
    asking = re.compile(
        r"\b(?!files\.)[\w)]+\.(exists|is_file|is_dir|is_symlink|is_mount|home)\(\)|\bpath\.(l?exists|is\w+)\("
    )
    answered = {
        f"rebalancer/{module}.py" for module in ("cluster/dumps/reader", "cluster/dumps/writer", "files")
    }

    found = {str(path.relative_to(ROOT)) for path in modules() if asking.search(path.read_text())}
    assert found == answered
