"""A search for a better policy on some recorded days, and its judgement on others.

Each trial is a point of a space. It is judged by its excess and its disruption a day, on the days that the
search may see; trials that no other beats in both are the front. Hours of a day depend on each other, so days
are blocks: every third is held out, and never seen before the end.

    asked     8 points at once, by a seed and by all generations before
    replayed  each on every day to tune on, by any number of workers
    told      in the order in which they were asked, and written down: what is killed goes on from there
    chosen    of the front the least excess for today's disruption, if it has less excess than today's
              policy whichever day is left out
    judged    against today's on the days held out: the mean difference of a day, with its interval
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import replace

from rebalancer import __version__, files
from rebalancer.counting import counted
from rebalancer.documents import to_yaml as dump_yaml
from rebalancer.errors import InputError
from rebalancer.planning.plan import API_VERSION, ChangedSetting, Value
from rebalancer.policy.policy_file import changed_settings, parse_policy, shown
from rebalancer_lab.timeline.places import folder_of, is_url, plainly
from rebalancer_lab.timeline.space import Point, Setting, Space, named
from rebalancer_lab.timeline.timeline import Timeline
from rebalancer_lab.timeline.workers import Block, Figures, Task, Workers

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

MAX_BLOCKS = 1000
_JUDGING_SEEDS = 3
_LEAST_HELD_OUT = 2  # an interval needs two
# Of Student's distribution, two-sided: by degrees of freedom from 1; beyond them the last.
_T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
_STUDY = "rebalancer"
_LEAST_COST = 1.0  # of a day: a policy that moves nothing today may be replaced by one that moves a pod


class Search(msgspec.Struct, frozen=True):
    """How long is searched, and for what."""

    trials: int = 64
    population: int = 8  # asked at once
    seed: int = 0
    most_cost: float = 1.0  # of the chosen policy, as a share of today's


class Trial(Value, frozen=True):
    """A point of the space, and its figures of the days that were tuned on."""

    number: int
    point: dict[str, bool | int | float | str]
    excess: float = math.inf
    cost: float = math.inf
    blocks: tuple[Figures, ...] = ()
    error: str = ""

    @property
    def pending(self) -> float:
        """The mean of the Pending pods of its days."""
        return fmean(figures.pending for figures in self.blocks)


class Margin(Value, frozen=True):
    """Today's figure of a day less that of the chosen policy; a positive one is better."""

    today: float
    chosen: float
    mean: float
    low: float  # ends of the interval that holds the mean of such days with 95 %
    high: float


class Tuning(Value, frozen=True):
    """What was found."""

    today: str
    seed: int
    tuned_on: tuple[Block, ...]
    held_out: tuple[Block, ...]
    trials: int
    failed: int
    excess: float  # of today's policy, on the days that were tuned on
    cost: float
    front: tuple[Trial, ...]  # the least cost first
    verdict: str
    better: bool = False
    chosen: Trial | None = None
    failure: str = ""  # why the first of the failed trials did
    changes: tuple[ChangedSetting, ...] = ()
    margins: dict[str, Margin] = {}  # on the days held out, by the figure
    api_version: str = API_VERSION
    kind: str = "Tuning"


def blocks_of(places: Sequence[str], seconds: float, every: int) -> tuple[Block, ...]:
    """The blocks of timelines by multiples of ``seconds``; each ``every``-th of a timeline is held out.

    ``places`` are folders, or URLs of such. A block with fewer than two moments is left out. InputError where
    too few are left to tune on, or to judge, and for a place that is named twice: its days would count twice.
    """
    blocks: list[Block] = []
    moments_seen: set[str] = set()
    for place in places:
        real = place.rstrip("/") if is_url(place) else os.path.realpath(place)
        if real in moments_seen:
            raise InputError("is named twice", where=plainly(place), hint="name each timeline once")
        moments_seen.add(real)
        all_moments = Timeline.open(folder_of(place)).moments()
        parts = [list(moments) for _, moments in groupby(all_moments, lambda at: at // seconds)]
        for number, part in enumerate((part for part in parts if len(part) > 1), 1):
            name = place if is_url(place) else str(Path(place).absolute())
            blocks.append(Block(name, part[0], part[-1], held_out=number % every == 0))
    if len(blocks) > MAX_BLOCKS:
        raise InputError(f"{len(blocks)} blocks are more than {MAX_BLOCKS}", hint="write a longer --block")
    judging = sum(block.held_out for block in blocks)
    if judging < _LEAST_HELD_OUT or judging == len(blocks):
        hint = "record more days, or write a shorter --block or a smaller --hold-out"
        raise InputError(f"{len(blocks)} blocks are too few to tune on some and judge on others", hint=hint)
    return tuple(blocks)


def tune(
    space: Space,
    blocks: Sequence[Block],
    search: Search,
    workers: Workers,
    storage: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Tuning:
    """Search, choose and judge; the same arguments, the same result, however often it was interrupted.

    ``storage`` is a journal of Optuna that is begun, or gone on with. InputError where it is another one.
    """
    tuned_on = tuple(block for block in blocks if not block.held_out)
    held_out = tuple(block for block in blocks if block.held_out)
    judging = _Judging(space, workers)
    with _held(storage) as lock:
        study = _study(storage, lock, _digest(space, blocks, search))  # before days are replayed
        (today,) = judging.trials([{}], tuned_on, search.seed)
        if today.error:
            raise InputError(
                f"today's policy cannot be replayed: {today.error}", where=plainly(tuned_on[0].folder)
            )
        trials = _searched(study, judging, space, tuned_on, search, progress)
    done = [trial for trial in trials if not trial.error]
    front = _front(done)
    chosen = _chosen(front, today, search.most_cost)
    tuning = Tuning(
        today=space.today.policy.metadata.name,
        seed=search.seed,
        tuned_on=tuned_on,
        held_out=held_out,
        trials=len(trials),
        failed=len(trials) - len(done),
        excess=today.excess,
        cost=today.cost,
        front=tuple(replace(trial, blocks=()) for trial in front),
        failure=next((f"trial {trial.number} failed: {trial.error}" for trial in trials if trial.error), ""),
        verdict=f"{_why_none(front, today, search.most_cost)}: keep today's policy",
    )
    return tuning if chosen is None else _judged(tuning, chosen, judging, search)


class _Judging:
    """Replays points on blocks."""

    def __init__(self, space: Space, workers: Workers) -> None:
        self.space = space
        self._workers = workers
        self._judge = space.text({})

    def trials(
        self, points: Sequence[Point], blocks: Sequence[Block], seed: int, first: int = 0
    ) -> Iterator[Trial]:
        """The points in their order, with their means over the blocks; all are replayed by the same seed."""
        source = self.space.today.source
        texts: list[tuple[str, str]] = []  # the policy, and why it cannot be used
        for point in points:
            try:
                text = self.space.text(point)
                parse_policy(text, source)
                texts.append((text, ""))
            except InputError as error:
                texts.append(("", error.message))
        tasks = [
            Task(block, text, self._judge, source, seed) for text, _ in texts if text for block in blocks
        ]
        figures = self._workers.figures(tasks)
        for number, (point, (text, wrong)) in enumerate(zip(points, texts, strict=True), first):
            trial = Trial(number=number, point=dict(point), error=wrong)
            yield _with_figures(trial, [next(figures) for _ in blocks]) if text else trial


def _with_figures(trial: Trial, figures: Sequence[Figures | str]) -> Trial:
    error = next((error_or_figures for error_or_figures in figures if isinstance(error_or_figures, str)), "")
    answers = tuple(answered for answered in figures if isinstance(answered, Figures))
    if error:
        return replace(trial, error=error)
    excess = fmean(of_block.excess for of_block in answers)
    cost = fmean(of_block.cost for of_block in answers)
    return replace(trial, excess=excess, cost=cost, blocks=answers)


def _searched(
    study: Study,
    judging: _Judging,
    space: Space,
    blocks: Sequence[Block],
    search: Search,
    progress: Callable[[str], None],
) -> list[Trial]:
    """All trials, those first that were written down before."""
    from optuna.trial import TrialState, create_trial  # noqa: PLC0415 - slow to import

    distributions = {path: _distribution(setting) for path, setting in space.settings.items()}
    trials = _written(study, space, len(blocks))
    for _ in trials:
        progress("found in the storage")
    while len(trials) < search.trials:
        generation, begun = divmod(len(trials), search.population)
        before = trials[: generation * search.population]
        points = _asked(before, distributions, search, generation)[
            begun : begun + search.trials - len(trials)
        ]
        for trial in judging.trials(points, blocks, search.seed, len(trials)):
            failed = bool(trial.error)
            study.add_trial(
                create_trial(
                    state=TrialState.FAIL if failed else TrialState.COMPLETE,
                    params=trial.point,
                    distributions=distributions,
                    values=None if failed else [trial.excess, trial.cost],
                    user_attrs={
                        "trial": msgspec.to_builtins(replace(trial, excess=0.0, cost=0.0)),
                        "policy": _policy_digest(space, trial.point),
                    },
                )
            )
            trials.append(trial)
            progress(f"generation {generation + 1} of {math.ceil(search.trials / search.population)}")
    return trials


def _asked(
    before: Sequence[Trial], distributions: Mapping[str, BaseDistribution], search: Search, generation: int
) -> list[Point]:
    """The points of a generation: by the seed and the generations before, and by nothing else."""
    import optuna  # noqa: PLC0415 - slow to import

    seed = int.from_bytes(hashlib.sha256(f"{search.seed} {generation}".encode()).digest()[:4], "big")
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=search.population)
    memory = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    for trial in before:
        if not trial.error:
            values = [trial.excess, trial.cost]
            memory.add_trial(
                optuna.create_trial(params=trial.point, distributions=dict(distributions), values=values)
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts of Optuna that may change yet: its version is locked
        return [memory.ask(dict(distributions)).params for _ in range(search.population)]


def _distribution(setting: Setting) -> BaseDistribution:
    from optuna import distributions  # noqa: PLC0415 - slow to import

    values = setting.values
    if setting.choose:
        return distributions.CategoricalDistribution(values)
    first = values[0]
    last = values[-1]
    if isinstance(first, int) and isinstance(last, int) and float(setting.step).is_integer():
        return distributions.IntDistribution(first, last, step=int(setting.step))
    return distributions.FloatDistribution(float(first), float(last), step=setting.step)


def _end_last_line(journal: Path) -> None:
    """Cut off the line that a killed search was writing, after which Optuna could not read its journal."""
    content = journal.read_bytes() if files.is_file(journal) else b""
    whole = content.rfind(b"\n") + 1
    if content.startswith(b'{"op_code"') and whole < len(content):
        os.truncate(journal, whole)


@contextlib.contextmanager
def _held(storage: Path | None) -> Iterator[FileLock | None]:
    """The lock of a journal while it is written: one search at a time, and none once the process is killed.

    Optuna's own lock is a link that a killed process leaves behind, and it waits for ever for one to nowhere.
    """
    if storage is None:
        yield None
        return
    if files.is_there(storage) and not files.is_file(storage):
        raise InputError("is no file", where=str(storage), hint="name a new file")
    if not storage.parent.is_dir():  # FileLock would make it
        raise InputError("is in a folder that is not there", where=str(storage))
    lock = FileLock(f"{storage}.lock")
    try:
        if Path(lock.lock_file).is_symlink():
            hint = f"remove {lock.lock_file} if nothing writes to it any more"
            raise InputError("is locked by another program of Optuna", where=str(storage), hint=hint)
        lock.acquire(blocking=False)
    except Timeout as error:
        hint = "stop that one, or name another file"
        raise InputError("is written by another search", where=str(storage), hint=hint) from error
    except OSError as error:
        raise InputError(f"cannot be locked: {error.strerror or error}", where=str(storage)) from error
    try:
        yield lock
    finally:
        lock.release()


def _study(storage: Path | None, lock: FileLock | None, digest: str) -> Study:
    """The study of a journal, or a new one."""
    import optuna  # noqa: PLC0415 - slow to import
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        backend: Any = None
        if storage is not None:
            _end_last_line(storage)
            journal: Any = JournalFileBackend(str(storage), lock)
            backend = optuna.storages.JournalStorage(journal)
        study = optuna.create_study(
            study_name=_STUDY,
            directions=["minimize", "minimize"],
            storage=backend,
            load_if_exists=True,
        )
        digest_of_study = study.user_attrs.get("inputs", digest)
        if digest_of_study == digest:  # the mark of another search stays
            study.set_user_attr("inputs", digest)
    except Exception as error:  # Optuna fails in many ways on a file that is none of its own
        raise InputError(
            f"cannot be used as Optuna's journal: {type(error).__name__}: {error!s:.200}", where=str(storage)
        ) from error
    if digest_of_study != digest:
        raise InputError(
            "holds a search of another space, policy, seed or recording, or of another version",
            where=str(storage),
            hint="name a new file",
        )
    return study


def _policy_digest(space: Space, point: Point) -> str:
    """Of the policy that a point means, which another version of this program may read otherwise."""
    try:
        return hashlib.sha256(msgspec.json.encode(space.document(point))).hexdigest()
    except InputError as error:
        return error.message


def _written(study: Study, space: Space, blocks: int) -> list[Trial]:
    """The trials of a study, in the order of their numbers, each with the figures of so many blocks."""
    written = study.get_trials(deepcopy=False)
    try:
        trials = [msgspec.convert(frozen_trial.user_attrs["trial"], Trial) for frozen_trial in written]
    except (KeyError, msgspec.ValidationError) as error:
        raise InputError("the storage holds trials of another program", hint="name a new file") from error
    if [trial.number for trial in trials] != list(range(len(trials))):
        raise InputError("the storage lacks trials, or two searches wrote to it", hint="name a new file")
    if any(not trial.error and len(trial.blocks) != blocks for trial in trials):
        raise InputError("the storage holds trials of other blocks", hint="name a new file")
    for frozen_trial, trial in zip(written, trials, strict=True):
        if frozen_trial.user_attrs.get("policy") != _policy_digest(space, trial.point):
            raise InputError(
                f"the storage holds trial {trial.number}, whose point meant another policy when it was tried",
                hint="name a new file",
            )
    return [trial if trial.error else _with_figures(trial, trial.blocks) for trial in trials]


def _digest(space: Space, blocks: Sequence[Block], search: Search) -> str:
    settings = {path: setting.model_dump(mode="json") for path, setting in space.settings.items()}
    parts: list[object] = [space.today.digest, settings, [msgspec.to_builtins(block) for block in blocks]]
    parts += [search.seed, search.population, __version__]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def _front(trials: Sequence[Trial]) -> list[Trial]:
    """Those that no other beats in both figures, the least cost first; of equal ones the first."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: (trial.cost, trial.excess, trial.number)):
        if not front or trial.excess < front[-1].excess:
            front.append(trial)
    return front


def _chosen(front: Sequence[Trial], today: Trial, most_cost: float) -> Trial | None:
    """The least excess for the cost and Pending pods allowed; less than today's, whatever day is left out."""
    bound = most_cost * max(today.cost, _LEAST_COST)
    allowed = (
        trial for trial in _better(front, today) if trial.cost <= bound and trial.pending <= today.pending
    )
    return min(allowed, key=lambda trial: (trial.excess, trial.number), default=None)


def _better(front: Sequence[Trial], today: Trial) -> list[Trial]:
    """Those with less excess than today's policy, whatever day is left out."""

    def worst(trial: Trial) -> float:
        gains = [
            was.excess - of_block.excess for was, of_block in zip(today.blocks, trial.blocks, strict=True)
        ]
        return min(sum(gains) - (gain if len(gains) > 1 else 0.0) for gain in gains)

    return [trial for trial in front if worst(trial) > 0]


def _why_none(front: Sequence[Trial], today: Trial, most_cost: float) -> str:
    """Why no trial is chosen."""
    if not front:
        return "every trial failed"
    better = _better(front, today)
    if not better:
        return "no better than today's on the days it was tuned on"
    cheapest = min(trial.cost for trial in better) / max(today.cost, _LEAST_COST)
    if cheapest > most_cost:
        return f"less excess costs {cheapest:.2f} times today's or more, and --max-cost allows {most_cost:g}"
    return "what has less excess for the cost allowed leaves pods Pending longer than today's"


_SeedsOfDay: TypeAlias = tuple[list[Figures], list[Figures]]
"""The figures of a day by each seed: of today's policy, and of the chosen one."""


def _margin(name: str, days: Sequence[_SeedsOfDay]) -> Margin:
    """How much less one of the figures of a day is, each the mean of the seeds."""
    means = []
    for today, chosen in days:
        mean_today = fmean(getattr(figures, name) for figures in today)
        mean_chosen = fmean(getattr(figures, name) for figures in chosen)
        means.append((mean_today, mean_chosen))
    return margin_of(means)


def _judged(tuning: Tuning, chosen: Trial, judging: _Judging, search: Search) -> Tuning:
    """The chosen policy beside today's on the days held out, by several seeds."""
    days: list[_SeedsOfDay] = [([], []) for _ in tuning.held_out]
    for number in range(_JUDGING_SEEDS):
        today, tried = judging.trials([{}, chosen.point], tuning.held_out, search.seed + 1 + number)
        if today.error or tried.error:
            return replace(
                tuning, verdict=f"cannot be judged on the days held out: {today.error or tried.error}"
            )
        for day, was, of_chosen in zip(days, today.blocks, tried.blocks, strict=True):
            day[0].append(was)
            day[1].append(of_chosen)
    margins = {name: _margin(name, days) for name in ("excess", "hot", "cost", "evictions", "pending")}
    excess = margins["excess"]
    cost = margins["cost"]
    cheap = cost.chosen <= search.most_cost * max(cost.today, _LEAST_COST)
    better = excess.low > 0 and cheap
    share = f"{excess.mean:,.0f} points times minutes a day less excess"
    share += f" (95 %: {excess.low:,.0f} to {excess.high:,.0f})"
    held_out = f"{counted(len(days), 'day')} held out"
    verdict = f"better than today's on {held_out}: {share}"
    if not better:
        verdict = f"not better than today's on {held_out}: {share}; keep today's policy"
        if excess.low > 0:
            verdict = f"costs more than it may on {held_out}; keep today's policy"
    space = judging.space
    changes = changed_settings(space.today.policy, space.policy(chosen.point).policy)
    return replace(
        tuning,
        verdict=verdict,
        better=better,
        chosen=replace(chosen, blocks=()),
        changes=tuple(ChangedSetting(setting=key, before=was, after=now) for key, was, now in changes),
        margins=margins,
    )


def margin_of(days: Sequence[tuple[float, ...]]) -> Margin:
    """How much less the second figure of each day is than the first, with the interval of the mean."""
    differences = [was - now for was, now in days]
    mean = fmean(differences)
    spread = math.inf
    if len(differences) > 1:
        quantile = _T_95[min(len(differences) - 1, len(_T_95)) - 1]
        spread = quantile * stdev(differences) / math.sqrt(len(differences))
    return Margin(
        today=fmean(was for was, _ in days),
        chosen=fmean(now for _, now in days),
        mean=mean,
        low=mean - spread,
        high=mean + spread,
    )


def chosen_policy(tuning: Tuning, space: Space) -> str:
    """The chosen policy as YAML, without secrets; what speaks for it, and what it changes, in comments."""
    assert tuning.chosen is not None
    policy = space.policy(tuning.chosen.point).policy
    lines = [
        f"Chosen by rebalancer tune from {counted(tuning.trials, 'trial')}, instead of {tuning.today}.",
        f"It is {tuning.verdict}.",
    ]
    for name, margin in tuning.margins.items():
        words = f"{margin.today:,.1f} -> {margin.chosen:,.1f}, difference {margin.mean:z,.1f}"
        lines.append(f"  {name} a day: {words} (95 %: {margin.low:z,.1f} to {margin.high:z,.1f})")
    lines += [
        "What it changes:",
        *(f"  {change.setting}: {change.before} -> {change.after}" for change in tuning.changes),
    ]
    safe = "".join(f"# {' '.join(line.splitlines())}\n" for line in lines)
    return safe + dump_yaml(named(policy, shown(policy)[0]))
