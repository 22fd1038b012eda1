"""What every shipped policy does on a recorded cluster and on the cluster of the demo, as one table.

    python -m bench.shipped_policies [--from DUMP]

On the cluster of the demo all of them get its scheduler's configuration, which otherwise each has to name. A
policy that moves nothing has to say why: the first warning that names a setting is in the last column.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from rebalancer.errors import RebalancerError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.plan import Plan
from rebalancer.run.plan import make_plan
from rebalancer_demo.hot_cluster import CONFIGURATION
from rebalancer_demo.scenario import demo_cluster

POLICIES = Path(__file__).parents[1] / "policies"
FOLDER = click.Path(exists=True, path_type=Path)
_TITLES = ("cluster", "policy", "moves", "hot nodes", "excess", "peak cpu", "says")
_SAID_LENGTH = 110
_SETTINGS = ("scheduler.", "hotNodes", "load.", "prometheus", "load-watcher", "source ")


def rows_of(cluster: str, options: PlanOptions) -> Iterator[Sequence[str]]:
    """A row for each policy, in the order of their names."""
    for path in sorted(POLICIES.glob("*.yaml")):
        name = path.stem
        try:
            plan = make_plan(_with_policy(options, path))
        except RebalancerError as error:
            yield cluster, name, "-", "-", "-", "-", f"refused: {error}"[:_SAID_LENGTH]
            continue
        yield cluster, name, *_figures(plan), _said(plan)


def _with_policy(options: PlanOptions, path: Path) -> PlanOptions:
    return replace(options, policy_path=path)


def _figures(plan: Plan) -> tuple[str, str, str, str]:
    benefit = plan.benefit
    assert benefit is not None
    peak = benefit.peak.get("cpu")
    changes = (benefit.hot_nodes, benefit.excess, *((peak,) if peak else ()))
    return (str(len(plan.moves)), *(f"{item.before:.0f} to {item.after:.0f}" for item in changes))  # type: ignore[return-value]


def _said(plan: Plan) -> str:
    """The first warning that names a setting; of a plan that moves nothing, else what keeps most load."""
    named = [warning for warning in plan.warnings if warning.startswith(_SETTINGS)]
    if not named and not plan.moves and plan.obstacles:
        named = [
            f"{plan.obstacles[0].setting or 'the cluster'} keeps {plan.obstacles[0].share:.0%} of the load"
        ]
    return next(iter(named), "")[:_SAID_LENGTH]


@click.command()
@click.option("--from", "dump", type=FOLDER, help="A recorded cluster besides that of the demo.")
def main(dump: Path | None) -> None:
    """Print the table."""
    found: list[Sequence[str]] = [_TITLES]
    if dump is not None:
        found += rows_of(dump.name, PlanOptions(source=dump))
    with tempfile.TemporaryDirectory() as folder, demo_cluster() as sandbox:
        kubeconfig = sandbox.write_kubeconfig(Path(folder) / "kubeconfig")
        configuration = Path(folder) / "scheduler.yaml"
        configuration.write_text(CONFIGURATION)
        found += rows_of("demo", PlanOptions(kubeconfig=kubeconfig, scheduler_config=configuration))
    widths = [max(len(row[column]) for row in found) for column in range(len(_TITLES))]
    for row in found:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
