"""The control planes of the end-to-end suite are those whose schedulers are compared with the model."""

from __future__ import annotations

from rebalancer.scheduling.versions.verified import COMPARED
from tests.e2e import assets, custom_resources
from tests.rows import rows


@rows("minor", [*assets.OLD_MINORS, *assets.MINORS])
def test_a_control_plane_is_of_the_release_that_is_compared(minor: str) -> None:
    assert assets.kubernetes_version(minor) == COMPARED[minor]


def test_the_packages_of_custom_resources_name_each_other_at_their_new_place() -> None:
    source = 'import (\n\t"k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"\n)\n'
    assert custom_resources.renamed(source) == source.replace("apiextensions-apiserver", "apiextensions-api")


def test_only_a_control_plane_whose_module_names_them_gets_the_packages_of_custom_resources() -> None:
    minors = [
        minor
        for minor in assets.MINORS
        if custom_resources.are_split_off(assets.MODULE / "minors" / f"{minor}.mod")
    ]
    assert minors == ["1.38"]
