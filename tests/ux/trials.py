"""What a new user types: every command with the exit code, the length and the words that its output must have.

The groups are those of a trial by hand of version 0.1.0, from before its tables were mended. ``before`` is what
was seen then, where it was worse.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cli.program import COMMANDS

EXAMPLE = "--from examples/hot-cluster --policy examples/policy.yaml"
POD, NODE = "pod/shop/api-7d9f-03", "node/node-2"
TABLE, WIDE, ANY = 80, 160, 1_000_000  # columns


@dataclass(frozen=True)
class Trial:
    """A command, and what it must do."""

    group: str
    command: str  # what follows ``rebalancer``
    code: int = 0
    lines: int = 60  # of stdout, at most; an error prints none
    columns: int = TABLE  # of stdout, at most
    says: tuple[str, ...] = ()  # on stdout, or of an error on stderr
    never: tuple[str, ...] = ()
    before: str = ""

    @property
    def words(self) -> list[str]:
        """The command as a shell splits it."""
        return shlex.split(self.command)


_OF_GROUPS = (
    *("snapshot save", "snapshot info", "policy init", "policy validate", "policy show", "policy import"),
    *("policy schema", "policy test", "journal show", "journal in-flight"),
)


def _help() -> Iterable[Trial]:
    yield Trial("help", "--help", says=("Exit codes", "plan ", "demo "))
    for command in (*COMMANDS, *_OF_GROUPS):
        yield Trial("help", f"{command} --help", lines=75, says=("Usage:",))
        yield Trial("help", f"{command} -h", lines=75, says=("Usage:",))
    for command in ("plan", "nodes", "run", "explain", "simulate"):
        yield Trial("help", f"{command} --help", lines=75, says=("-v, --verbose", "jsonpath=..."))
    yield Trial("help", "--version", lines=3, says=("rebalancer 0.1.0", "kube-scheduler"))
    for shell in ("bash", "zsh", "fish"):
        yield Trial("help", f"completion {shell}", columns=ANY, says=("_REBALANCER_COMPLETE",), before="none")


def _reading() -> Iterable[Trial]:
    for subject in ("plan", "nodes"):
        for form, columns in (("table", TABLE), ("wide", WIDE), ("markdown", ANY), ("name", TABLE)):
            yield Trial("formats", f"{subject} {EXAMPLE} -o {form}", columns=columns, lines=60)
        for form in ("json", "yaml", "csv", "jsonpath={.kind}"):
            yield Trial("formats", f"{subject} {EXAMPLE} -o {form}", lines=1000, columns=ANY)
        for option in ("--top 1", "--all", "--no-headers", "--top 1 --no-headers", "-v", "--log-format json"):
            yield Trial("rows", f"{subject} {EXAMPLE} {option}", columns=WIDE, lines=90)
        yield Trial(
            "rows", f"{subject} {EXAMPLE} -o name", says=("node-2" if subject == "nodes" else "pod/shop/",)
        )
    yield Trial(
        "at a glance",
        f"plan {EXAMPLE}",
        lines=30,
        says=("Plan: 2 of 2 hot nodes no longer hot; 4 of 24 pods restart", "89→63", "cooled"),
        never=("stays hot", "with a chance", "Traceback"),
        before="4 lines a move, 3 moves shown, headline of 81 columns",
    )
    yield Trial(
        "at a glance",
        "plan --from examples/hot-cluster",
        says=("2 of 2 hot nodes no longer hot", "2 nodes above coolTo: 2 not hot, 0 still hot", "BLOCKED BY"),
        never=("cooled",),
        before="a headline that contradicted its list",
    )
    yield Trial(
        "at a glance",
        f"nodes {EXAMPLE}",
        lines=13,
        says=(
            "6 nodes: 2 hot",
            "mean",
            "p95",
            "nodes from 0 to 100 %",
            "hot above cpu 80 % (cool at 65 %)",
            "cpu 9.2 above 80 %",
        ),
        never=("of allocatab…", "scheduler's version"),
        before="3 lines a node, the reason cut before it says anything",
    )
    for order in ("wave", "gain", "chance", "pod", "from", "to"):
        yield Trial("rows", f"plan {EXAMPLE} --sort {order}", before="no order")
    for order in ("heat", "name", "score", "cpu", "memory"):
        yield Trial("rows", f"nodes {EXAMPLE} --sort {order}")
    for choice in ("-n shop", "-A", "-l app=web", "-l 'app in (web,api)'", "-l '!app'", "-n kube-system"):
        yield Trial("rows", f"plan {EXAMPLE} {choice}", before="no -n, no -l")
        yield Trial("rows", f"plan {EXAMPLE} {choice} -o name", lines=10)
    for choice in ("spec.nodeName=node-1", "metadata.name!=x", "spec.schedulerName=trimaran"):
        yield Trial("rows", f"plan {EXAMPLE} --field-selector {choice}", before="no such option")
    yield Trial("rows", f"plan {EXAMPLE} -l app=web", says=("listed   pods of label app=web: 2 of 4 moves",))
    for choice in (
        "--hot",
        "-l kubernetes.io/os=linux",
        "-l pool=x",
        "--field-selector spec.unschedulable=false",
    ):
        yield Trial("rows", f"nodes {EXAMPLE} {choice}", says=("6 nodes: 2 hot",))
    yield Trial("rows", f"nodes {EXAMPLE} --hot -o name", lines=2, says=("node/node-2", "node/node-1"))
    yield Trial(
        "formats",
        rf"""plan {EXAMPLE} -o 'jsonpath={{range .moves[*]}}{{.pod.name}}{{"\t"}}{{.from}}{{"\n"}}{{end}}'""",
        lines=4,
        says=("api-7d9f-03\tnode-2",),
        before="no such format",
    )
    yield Trial(
        "formats", f"plan {EXAMPLE} -o html", columns=ANY, lines=400, says=("<!DOCTYPE html>",), before="none"
    )
    yield Trial(
        "formats", f"nodes {EXAMPLE} -o html", columns=ANY, lines=150, says=("hot above 80 %", "cool to 65 %")
    )
    yield Trial(
        "formats", f"plan {EXAMPLE} -o markdown", columns=ANY, says=("## Plan: 2 of 2", "| WAVE | POD |")
    )


def _explaining() -> Iterable[Trial]:
    for subject in (
        *(POD, "po/shop/api-7d9f-03", "pods/api-7d9f-03", "po api-7d9f-03 -n shop", "pod shop/api-7d9f-03"),
        *(NODE, "no/node-2", "nodes/node-2", "node node-2"),
        *("deploy/shop/web", "deployment/web", "deploy web -n shop", "rs/web-7d9f", "ds/node-agent"),
        "deployments.apps/web",
    ):
        yield Trial("explain", f"explain {subject} {EXAMPLE}", before="only pod/ and node/")
    yield Trial(
        "explain", f"explain {POD} {EXAMPLE}", says=("SCHEDULER'S SCORES", "risk of a bad one: 0.0 %")
    )
    yield Trial("explain", f"explain {NODE} {EXAMPLE}", says=("node node-2: hot", "stays (Budget)"))
    yield Trial("explain", f"explain deploy/web {EXAMPLE}", says=("8 pods, 6 on hot nodes, 2 moved",))
    for form in ("json", "yaml", "markdown", "jsonpath={.kind}"):
        for subject in (POD, NODE, "deploy/web"):
            yield Trial("explain", f"explain {subject} {EXAMPLE} -o {form}", columns=ANY, lines=600)
    yield Trial("explain", f"explain {POD} {EXAMPLE} --all", lines=90, columns=WIDE)
    yield Trial("explain", f"explain {NODE} {EXAMPLE} --top 2", lines=20)


def _questions() -> Iterable[Trial]:
    group = "questions"
    yield Trial(
        group, f"explain {EXAMPLE}", lines=24, says=("pods would be moved",), before="no such command"
    )
    yield Trial(
        group,
        "explain pod/shop/api-7d9f-01 --from examples/hot-cluster",
        says=("perWorkload 10% (1)", "limits.perWorkload the plan would move it"),
        before="one sentence, no word whether a higher limit helps",
    )
    yield Trial(group, f"explain pod/shop/nobody {EXAMPLE}", code=2, says=("no pod 'shop/nobody'",))
    yield Trial(
        group,
        f"what-if --drain node-2 {EXAMPLE}",
        lines=40,
        columns=WIDE,
        says=("What if: drain node-2", "land"),
    )
    yield Trial(group, f"what-if --scale deploy/shop/api=9 {EXAMPLE}", lines=40, says=("3 pods: 3 land",))
    yield Trial(group, f"what-if --add-node node-5=2 {EXAMPLE}", lines=40, says=("node-5-new-2",))
    yield Trial(group, f"what-if {EXAMPLE}", code=2, says=("what should change?", "--drain"))
    yield Trial(group, f"what-if --drain nod-2 {EXAMPLE}", code=2, says=("did you mean node/node-2",))
    yield Trial(group, f"fit policies/conservative.yaml {EXAMPLE}", code=2, says=("makes no pods",))
    yield Trial(group, f"fit nowhere.yaml {EXAMPLE}", code=2, says=("cannot be read",))
    yield Trial(group, f"plan {EXAMPLE} --diff policies/conservative.yaml", says=("CHANGED SETTINGS",))
    yield Trial(group, "policy init --from examples/hot-cluster", says=("# Seen: 6 nodes and 24 pods",))
    yield Trial(group, f"policy test policies/conservative.yaml {EXAMPLE}", code=2, says=("PolicyTest",))
    for form in ("json", "yaml", "markdown", "jsonpath={.kind}"):
        yield Trial(group, f"what-if --drain node-2 {EXAMPLE} -o {form}", lines=400, columns=ANY)


def _recordings_and_policies() -> Iterable[Trial]:
    for form, columns in (("table", TABLE), ("json", ANY), ("yaml", ANY), ("markdown", ANY)):
        yield Trial("recordings", f"snapshot info examples/hot-cluster -o {form}", lines=250, columns=columns)
    yield Trial("recordings", "snapshot save saved --from examples/hot-cluster", lines=45)
    yield Trial("recordings", "snapshot info saved", lines=45)
    yield Trial(
        "recordings",
        f"simulate {EXAMPLE} --policy policies/balanced.yaml --cycles 2",
        lines=24,
        says=("POLICIES", "OVER 80", "again:", "unexpected:", "hot in 1 of 2 required runs"),
        before="each policy by its own yardstick, a first cycle without evictions and without a reason",
    )
    yield Trial("recordings", f"simulate {EXAMPLE} --cycles 2 -o csv", columns=ANY)
    yield Trial("recordings", f"simulate {EXAMPLE} --cycles 2 -o markdown", columns=ANY)
    yield Trial(
        "recordings",
        f"simulate {EXAMPLE} --cycles 2 -o html",
        columns=ANY,
        lines=150,
        says=("<!DOCTYPE html>",),
    )
    yield Trial("recordings", f"simulate {EXAMPLE} --policy policies/balanced.yaml --cycles 2 --noise 10%")
    for name in ("conservative", "balanced", "prometheus", "k3s-trimaran", "network-traffic"):
        yield Trial("policies", f"policy validate policies/{name}.yaml", lines=1, says=("valid, policy",))
    yield Trial("policies", "policy init", lines=150, columns=110, says=("yaml-language-server",))
    yield Trial(
        "policies", "policy init mine.yaml", lines=1, says=("mine.yaml: written; next: rebalancer plan",)
    )
    yield Trial("policies", "policy validate mine.yaml", lines=1)
    yield Trial("policies", "policy show", lines=120, columns=110)
    yield Trial("policies", "policy show mine.yaml -o jsonpath={.kind}", lines=1, says=("RebalancePolicy",))
    yield Trial("policies", "policy schema", lines=4000, columns=ANY, says=('"$id"',))
    yield Trial(
        "reports",
        "plan --from report.html",
        says=("Plan: 2 of 2 hot nodes no longer hot",),
        before="not read back",
    )
    yield Trial("reports", "policy show report.html", lines=150, columns=ANY, says=("name: demo",))
    yield Trial(
        "reports", "plan --from report.html --diff report.html", says=("The plans make the same moves.",)
    )
    yield Trial("reports", "plan --from plan.json --diff report.html", says=("byte by byte",))


def _live() -> Iterable[Trial]:
    yield Trial("live", "nodes --policy examples/policy.yaml", lines=14)
    yield Trial("live", "nodes --request-timeout 20s", lines=20, before="no such option")
    yield Trial("live", "plan --policy examples/policy.yaml --request-timeout 30s", lines=40)
    yield Trial("live", f"explain {NODE}", lines=40)
    yield Trial(
        "live",
        "run --policy examples/policy.yaml --dry-run",
        lines=60,
        columns=WIDE,
        says=("DRY RUN: nothing is changed", "the API server agrees"),
        never=("Evicted",),
        before="says Evicted, then Skipped",
    )
    yield Trial("live", "run --policy examples/policy.yaml --dry-run -o html", columns=ANY, lines=400)
    yield Trial("live", "snapshot save recorded --policy examples/policy.yaml", lines=45)


_REFUSED: tuple[tuple[str, int, str], ...] = (
    ("plna", 2, "plan"),
    ("plan policy.yaml", 2, "did you mean --policy policy.yaml?"),
    ("plan -f policy.yaml", 2, "did you mean --policy FILE?"),
    ("plan ./dump", 2, "did you mean --from ./dump?"),
    ("plan --polcy x", 2, "--policy"),
    (f"plan {EXAMPLE} -o xml", 2, "is none of table, wide, name"),
    (f"plan {EXAMPLE} -o jsonpath={{.moves", 2, "a { has no }"),
    (f"plan {EXAMPLE} -o jsonpath=", 2, "needs a template"),
    (f"plan {EXAMPLE} -o json={{.kind}}", 2, "is none of"),
    (f"plan {EXAMPLE} -l 'app in web'", 2, "unable to parse requirement"),
    (f"plan {EXAMPLE} --field-selector status.phase=Running", 2, "known: metadata.name"),
    (f"plan {EXAMPLE} --field-selector nodeName", 2, "FIELD=VALUE"),
    (f"plan {EXAMPLE} -n shop -A", 2, "-A for all of them"),
    (f"plan {EXAMPLE} -n shop -o json", 2, "prints the whole plan"),
    (f"plan {EXAMPLE} --sort speed", 2, "'wave', 'gain'"),
    (f"plan {EXAMPLE} --top 0", 2, "x>=1"),
    (f"plan {EXAMPLE} --now yesterday", 2, "is not a time"),
    (f"plan {EXAMPLE} --now 2030-01-01T00:00:00Z", 3, "load.maxAge"),
    (f"plan {EXAMPLE} --request-timeout 5", 2, "write e.g. 90s"),
    (f"plan {EXAMPLE} --context x", 2, "--context a live one"),
    (f"plan {EXAMPLE} --state-config-map x", 2, "--from a recorded one"),
    ("plan --from nowhere", 2, "no such file or folder"),
    ("plan --from empty", 2, "no Kubernetes objects here"),
    ("plan --from examples/hot-cluster --policy nowhere.yaml", 2, "cannot be read"),
    ("plan --from empty.html", 2, "holds no plan"),
    ("plan --kubeconfig nowhere", 2, "nowhere"),
    ("plan --context nowhere", 2, "nowhere"),
    (f"nodes {EXAMPLE} --sort gpu", 2, "use one of cpu, heat, memory, name"),
    (f"nodes {EXAMPLE} --watch", 2, "--from reads a recorded one"),
    ("nodes --watch --every 1ms", 2, "shorter than a second"),
    ("plan --kubeconfig empty.html", 2, "it is not a kubeconfig"),
    (f"nodes {EXAMPLE} --field-selector spec.nodeName=a", 2, "known: metadata.name, spec.unschedulable"),
    (f"explain api-7d9f-99 {EXAMPLE}", 2, "did you mean pod/shop/api-7d9f-0"),
    (f"explain pod/shop/api-7d9f-99 {EXAMPLE}", 2, "did you mean pod/shop/api-7d9f-0"),
    (f"explain pod/other/api-7d9f-03 {EXAMPLE}", 2, "did you mean pod/shop/api-7d9f-03"),
    (f"explain node/nope {EXAMPLE}", 2, "rebalancer nodes --from examples/hot-cluster"),
    (f"explain nod/node-2 {EXAMPLE}", 2, "did you mean node/node-2?"),
    (f"explain deploy/wbe {EXAMPLE}", 2, "did you mean deployment/shop/web?"),
    (f"explain pod/shop/api-7d9f-03 -n other {EXAMPLE}", 2, "-n asks for"),
    (f"run {EXAMPLE}", 2, "a recorded cluster cannot be changed"),
    ("run -n shop", 2, "limit it in the policy"),
    ("run -l app=web", 2, "limit it in the policy"),
    ("run --policy examples/policy.yaml --yes --journal /nope/dir/journal", 2, "its folder does not exist"),
    ("run --lease a/b/c", 2, "neither NAMESPACE/NAME nor NAME"),
    ("run --max-duration 10", 2, "write e.g. 90s"),
    ("agreement --from examples/hot-cluster", 2, "it follows what a live cluster decides"),
    ("snapshot save", 2, "PATH"),
    ("snapshot info nowhere", 2, "nowhere"),
    ("simulate", 2, "--from"),
    (f"simulate {EXAMPLE} --noise loud", 2, "loud"),
    (f"simulate {EXAMPLE} --cycles 0", 2, "1<=x"),
    ("plan --from empty.html --diff report.html", 2, "holds no plan"),
    ("plan --from report.html --diff examples/policy.yaml", 2, "is compared with another plan"),
    ("journal show nowhere", 2, "nowhere"),
    ("journal show", 2, "no run on a terminal has kept a journal here yet"),
    ("completion tcsh", 2, "'bash', 'zsh', 'fish'"),
    ("policy init examples/policy.yaml", 2, "already exists"),
    ("policy show empty.html", 2, "holds no policy"),
)
# A line of a policy, and words of the error that it causes.
_MISTAKES: tuple[tuple[str, str], ...] = (
    ("hotNode: {}", "did you mean hotNodes?"),
    ("limts: {perRun: 3}", "did you mean limits?"),
    ("limits: {perRun: many}", "valid integer"),
    ('limits: {perRun: "20"}', "perRun"),
    ("limits: {perRun: 10%}", "perRun"),
    ("limits: {perRun: -1}", "perRun"),
    ("limits: {perRun: 3", "4:1"),
    ("limits:\n\tperRun: 3", "tab"),
    ("load: {maxAge: 3}", "3s"),
    ("load: {maxAge: soon}", "maxAge"),
    ("load: {sources: [{prometheus: {address: 'prometheus:9090'}}]}", "http://"),
    ("load: {sources: [{promtheus: {address: 'http://p'}}]}", "did you mean prometheus?"),
    ("load: {minCoverage: 800%}", "minCoverage"),
    ("evictable: {namespaces: {exclude: ['ba?']}}", "ba?"),
    ("evictable: {namespaces: {exclude: ['Kube_System']}}", "Kube_System"),
    ("evictable: {minAge: -5m}", "minAge"),
    ("evictable: {podSelector: {app: web}}", "matchLabels"),
    ("evictable: {windows: [{days: [Saturday], from: '22:00', to: '23:00'}]}", "known: Mon"),
    ("hotNodes: {any: [{utilization: {cpu: 0.8}}]}", "0.8"),
    ("hotNodes: {any: [{utilization: {gpu: 80}}]}", "known: cpu"),
    ("hotNodes: {any: [{utilization: {cpu: 80}, coolTo: {cpu: 90}}]}", "coolTo"),
    ("hotNodes: {any: [{utilisation: {cpu: 80}}]}", "did you mean utilization?"),
    ("hotNodes: {forRuns: 0}", "forRuns"),
    ("planning: {aggressiveness: 9}", "aggressiveness"),
    ("planning: {minGain: -5}", "minGain"),
    ("safety: {pause: 7}", "pause"),
    ("execution: {waveSize: 0}", "waveSize"),
    ("scheduler: {version: latest}", "version"),
)


def policy_files() -> dict[str, str]:
    """The files of policies with a mistake, by name."""
    head = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
    return {f"mistake-{number}.yaml": f"{head}{line}\n" for number, (line, _) in enumerate(_MISTAKES, 1)}


def _mistakes() -> Iterable[Trial]:
    for command, code, words in _REFUSED:
        yield Trial("mistakes", command, code, lines=0, says=(words,), never=("Traceback",))
    for name, (_, words) in zip(policy_files(), _MISTAKES, strict=True):
        yield Trial(
            "mistakes", f"policy validate {name}", 2, lines=0, says=(f"{name}:", words), never=("Traceback",)
        )
        command = f"plan --from examples/hot-cluster --policy {name}"
        yield Trial("mistakes", command, 2, lines=0, says=(f"{name}:", words), never=("Traceback",))


TRIALS = (
    *_help(),
    *_reading(),
    *_explaining(),
    *_questions(),
    *_recordings_and_policies(),
    *_live(),
    *_mistakes(),
)
