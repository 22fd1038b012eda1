"""Each container of each manifest starts as image and manifest have it: command, files, ports, rights.

A checkout finds packages, files and rights that a container has not. So what is started here has the image's
entry point, its packages and its environment, what the manifest adds to these, the files that the manifest
mounts, and an API server that grants its service account what the manifest's roles grant.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rebalancer.cli.program import COMMANDS
from rebalancer_demo import Rule, Sandbox, User
from rebalancer_demo.hot_cluster import hot_cluster
from tests.ports import free_port
from tests.unit.manifests.documents import ROOT, Document, grants
from tests.unit.manifests.images import SITE_PACKAGES, image, lay
from tests.unit.manifests.rendering import NO_HELM, NO_KUSTOMIZE
from tests.unit.manifests.test_chart_values import ALL, rendered
from tests.waiting import HANG_SECONDS, eventually, present

TOKEN = "of-the-service-account"
# Kustomizations that can be applied, and values of the chart.
FOLDERS = sorted(
    path.parent.relative_to(ROOT).as_posix()
    for top in ("k8s", "extender/k8s", "examples/extender")
    for path in (ROOT / top).rglob("kustomization.yaml")
    if "kind: Component" not in path.read_text()
)
CHARTS: dict[str, Document] = {
    "chart": {},
    "chart act": {"act": True, "metricsPush": "http://127.0.0.1:9"},
    "chart Deployment": {"kind": "Deployment"},
    "chart Deployment act": ALL,
}
IMAGES = {"rebalancer": "program", "rebalancer-extender": "extender"}  # the stage of each
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # where clients look for their token
# What the variables are for that our own code does not read.
READ_BY_OTHERS = {"OPENBLAS_NUM_THREADS": "numpy"}


class Started(NamedTuple):
    """A container with the pod that it belongs to and the objects beside it."""

    name: str  # of the manifest
    container: Document
    pod: Document
    namespace: str
    objects: list[Document]

    @property
    def stage(self) -> str:
        """The stage of the Dockerfile that is its image."""
        return IMAGES[re.split("[:@]", self.container["image"].rpartition("/")[2])[0]]

    @property
    def account(self) -> str:
        """The service account whose token it finds."""
        for mount in self.container["volumeMounts"]:
            if mount["mountPath"] == TOKEN_FOLDER:
                (volume,) = [item for item in self.pod["volumes"] if item["name"] == mount["name"]]
                secret = self.object("Secret", volume["secret"]["secretName"])
                name: str = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"]
                return name
        return str(self.pod["serviceAccountName"])

    def object(self, kind: str, name: str) -> Document:
        """The object beside it with this name."""
        (found,) = [item for item in self.objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
        return found

    def user(self) -> User:
        """Its account with the rights that the manifest gives it, as far as the sandbox tells them apart."""
        allowed: list[Rule] = []
        for binding in self.objects:
            subjects = [(item["namespace"], item["name"]) for item in binding.get("subjects", ())]
            if not binding["kind"].endswith("Binding") or (self.namespace, self.account) not in subjects:
                continue
            role = self.object(binding["roleRef"]["kind"], binding["roleRef"]["name"])
            where = "*"
            if binding["kind"] == "RoleBinding":
                where = binding["metadata"]["namespace"]
            allowed += [
                Rule(frozenset({verb}), frozenset({resource}), frozenset({where}))
                for _, resource, verb, _ in grants(role["rules"])
            ]
        # In a cluster it asks load-watcher and Prometheus itself; here by their Service's proxy.
        allowed.append(Rule(frozenset({"get"}), frozenset({"services/proxy"})))
        return User(f"system:serviceaccount:{self.namespace}:{self.account}", tuple(allowed))


def containers(name: str, objects: list[Document]) -> list[Started]:
    """All containers of all pods of some objects."""
    found = []
    for item in objects:
        template = item.get("spec", {}).get("jobTemplate", item).get("spec", {}).get("template")
        if template is None:
            continue
        pod = template["spec"]
        namespace = item["metadata"]["namespace"]
        found += [Started(name, container, pod, namespace, objects) for container in pod["containers"]]
    return found


def of_kustomization(folder: str) -> list[Started]:
    """The containers of a kustomization."""
    made = subprocess.run(["kubectl", "kustomize", str(ROOT / folder)], capture_output=True, check=True)
    return containers(folder, [item for item in yaml.safe_load_all(made.stdout) if item])


@pytest.fixture(scope="session", params=FOLDERS if not NO_KUSTOMIZE else [])
def of_a_folder(request: pytest.FixtureRequest) -> list[Started]:
    return of_kustomization(request.param)


@pytest.fixture(scope="session", params=CHARTS if not NO_HELM else [])
def of_a_chart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Started]:
    return containers(request.param, rendered(tmp_path_factory.mktemp("chart"), CHARTS[request.param]))


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By stage, the packages of each image."""
    folder = tmp_path_factory.mktemp("images")
    return {stage: lay(stage, folder / stage) for stage in IMAGES.values()}


def ours(found: list[Started]) -> list[Started]:
    """Those of our images; kube-scheduler's is started by the end-to-end suite."""
    return [item for item in found if item.container["name"] != "kube-scheduler"]


def root_of(started: Started, folder: Path) -> dict[str, str]:
    """The files that are mounted, in a folder: the place of each mount by its path."""
    places = {}
    volumes = {volume["name"]: volume for volume in started.pod["volumes"]}
    for mount in started.container["volumeMounts"]:
        place = folder / mount["mountPath"].lstrip("/")
        place.mkdir(parents=True)
        places[mount["mountPath"]] = str(place)
        volume = volumes[mount["name"]]
        if "configMap" in volume:
            for key, text in started.object("ConfigMap", volume["configMap"]["name"])["data"].items():
                (place / key).write_text(text)
    return places


def placed(text: str, places: dict[str, str]) -> str:
    """A text of the manifest with the paths that are mounted where they are here."""
    paths = "|".join(map(re.escape, places))
    return re.sub(rf"(?<![\w/])({paths})(?=/|$)", lambda match: places[match[1]], text)


def environment_of(started: Started, packages: Path, places: dict[str, str]) -> dict[str, str]:
    """What image and manifest give together; packages are found by nothing else."""
    environment = dict(image(started.stage).environment)
    fields = {"metadata.namespace": started.namespace, "metadata.name": "rebalancer-0"}
    for variable in started.container.get("env", ()):
        value = variable.get("value")
        if value is None:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        environment[variable["name"]] = placed(value, places)
    return {
        name: re.sub(rf"(?<![\w/]){SITE_PACKAGES}(?=/|$)", str(packages), value)
        for name, value in environment.items()
    }


def listeners(arguments: list[str]) -> dict[str, int]:
    """The ports that a container listens on, by the argument that says so."""
    found = {}
    for argument in arguments:
        if match := re.fullmatch(r"--\w+=([\w.]*):(\d+)", argument):
            found[argument] = int(match[2])
    return found


def _in_place_of_its_account(arguments: Sequence[str], kubeconfig: Path) -> list[str]:
    """Options for what a pod finds by itself: with its own account a run needs no ``--yes``."""
    return [f"--kubeconfig={kubeconfig}", *(["--yes"] if "run" in arguments else [])]


@contextmanager
def process(
    started: Started, packages: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[str], dict[int, int]]]:
    """The container's process, and the port here for each of its own."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    places = root_of(started, folder / "root")
    ports: dict[int, int] = {}
    arguments = []
    opened = listeners(started.container["args"])
    for argument in started.container["args"]:
        if argument in opened:
            ports[opened[argument]] = free_port()
            argument = f"{argument.partition('=')[0]}=127.0.0.1:{ports[opened[argument]]}"  # noqa: PLW2901
        arguments.append(placed(argument, places))
    command = started.container.get("command", image(started.stage).entry_point)
    installed = [item for item in started.objects if item["kind"] in ("ConfigMap", "Lease", "Namespace")]
    objects = [*hot_cluster(present()), *installed]
    with Sandbox(objects, users={TOKEN: started.user()}, ready_after=0.0, terminates_after=0.0) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig", token=TOKEN)
        output = (folder / "output").open("w+")
        running = subprocess.Popen(
            [
                str(programs / command[0]),
                *command[1:],
                *arguments,
                *_in_place_of_its_account(arguments, kubeconfig),
            ],
            env={
                "HOME": str(folder),
                "PATH": str(programs),
                **environment_of(started, packages, places),
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield running, ports
        finally:
            running.kill()
            running.wait(HANG_SECONDS)
            output.close()


def answer(url: str) -> int:
    """The status of an answer; 0 where nobody listens."""
    try:
        with urllib.request.urlopen(url, timeout=HANG_SECONDS) as got:
            return int(got.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def check_start(started: Started, packages: Path, folder: Path) -> None:
    """A service answers its probes and ends when it is told to; what is no service ends with its result."""
    container = started.container
    probes = [container[name] for name in ("livenessProbe", "readinessProbe") if name in container]
    named = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    with process(started, packages, folder) as (running, ports):
        for probe in probes:
            asked = probe["httpGet"]
            url = f"http://127.0.0.1:{ports[named[asked['port']]]}{asked['path']}"
            eventually(
                lambda url=url: running.poll() is not None or answer(url) == 200,  # type: ignore[misc]
                awaited=f"{started.name} answers {asked['path']}",
            )
        if probes:
            assert running.poll() is None, (folder / "output").read_text()
            running.send_signal(signal.SIGTERM)
        code = running.wait(HANG_SECONDS)
    said = (folder / "output").read_text()
    assert code == 0, said
    assert "forbidden" not in said
    if not probes:
        kinds = [json.loads(line).get("kind") for line in said.splitlines()]
        assert {"Plan", "Outcomes"} & set(kinds), said


@pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")
def test_each_container_of_a_kustomization_starts(
    of_a_folder: list[Started], site_packages: dict[str, Path], tmp_path: Path
) -> None:
    for number, started in enumerate(ours(of_a_folder)):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_start(started, site_packages[started.stage], folder)


@pytest.mark.skipif(bool(NO_HELM), reason=NO_HELM or "never")
def test_each_container_of_the_chart_starts(
    of_a_chart: list[Started], site_packages: dict[str, Path], tmp_path: Path
) -> None:
    for number, started in enumerate(ours(of_a_chart)):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_start(started, site_packages[started.stage], folder)


def check_all_is_used(started: Started) -> None:
    """No port, path or variable stands in a manifest that the container has no use for."""
    container = started.container
    open_ports = {
        port
        for argument, port in listeners(container["args"]).items()
        if argument.partition("=")[2].startswith(":")
    }
    asked = {
        container[name]["httpGet"]["port"]
        for name in ("livenessProbe", "readinessProbe")
        if name in container
    }
    # The kubelet asks the pod's address: what listens on loopback alone answers no probe.
    assert {port["containerPort"] for port in container.get("ports", ())} == open_ports
    assert {port["name"] for port in container.get("ports", ())} == asked
    words = " ".join(container["args"])
    for mount in container["volumeMounts"]:
        assert mount["mountPath"] in ("/tmp", TOKEN_FOLDER) or f"{mount['mountPath']}/" in words
    projects = [ROOT / project for project in image(started.stage).projects]
    source = "".join(path.read_text() for project in projects for path in project.glob("rebalancer*/**/*.py"))
    for variable in container.get("env", ()):
        assert variable["name"] in READ_BY_OTHERS or f'"{variable["name"]}"' in source
        assert variable["name"] not in image(started.stage).environment, "the image's own are not changed"


@pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")
def test_a_kustomization_names_no_port_path_or_variable_without_a_use(of_a_folder: list[Started]) -> None:
    for started in ours(of_a_folder):
        check_all_is_used(started)


@pytest.mark.skipif(bool(NO_HELM), reason=NO_HELM or "never")
def test_the_chart_names_no_port_path_or_variable_without_a_use(of_a_chart: list[Started]) -> None:
    for started in ours(of_a_chart):
        check_all_is_used(started)


def test_every_folder_with_a_pod_is_among_those_that_are_started() -> None:
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for top in ("k8s", "extender", "examples")
        for path in (ROOT / top).rglob("*.yaml")
        if re.search(r"^ +containers:$", path.read_text(), re.MULTILINE)
    }
    of_the_lab = {"examples/dask"}  # workers of a search, on an image of their own

    assert folders - set(FOLDERS) - of_the_lab == set()


def in_image(stage: str, packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of an image with nothing but the image's packages."""
    environment = {
        name: value.replace(SITE_PACKAGES, str(packages)) for name, value in image(stage).environment.items()
    }
    command = [sys._base_executable, *image(stage).entry_point[1:], *arguments]  # type: ignore[attr-defined]
    return subprocess.run(command, env=environment, cwd=packages, capture_output=True, text=True, check=False)


def test_the_image_starts_each_command_of_the_program_and_has_no_other(
    site_packages: dict[str, Path],
) -> None:
    shown = in_image("program", site_packages["program"], "--help")

    assert "Commands of rebalancer-" not in shown.stdout
    for command in COMMANDS:
        assert f"\n  {command} " in shown.stdout
        started = in_image("program", site_packages["program"], command, "--help")
        assert (started.returncode, started.stderr) == (0, "")
        assert started.stdout.startswith(f"Usage: rebalancer {command} ")


def test_the_image_of_the_extender_has_its_command_besides(site_packages: dict[str, Path]) -> None:
    shown = in_image("extender", site_packages["extender"], "--help")

    assert "\nCommands of rebalancer-extender:\n  extender " in shown.stdout
