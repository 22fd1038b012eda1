from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from rebalancer.cluster.kinds import KINDS
from rebalancer.reporting.tables.snapshot import (
    ABSENCE_MEANS,
    KindCount,
    RecordedDocument,
    SnapshotInfo,
    UnreadKind,
    snapshot_table,
)


def test_every_kind_we_read_says_what_its_absence_means() -> None:
    assert set(ABSENCE_MEANS) == {kind.plural for kind in KINDS}


def test_a_description_shows_what_is_there_and_what_is_not(snapshot: SnapshotAssertion) -> None:
    info = SnapshotInfo(
        source="dump",
        inputs="sha256:00",
        kinds=(
            KindCount(plural="nodes", count=3, malformed=0, resource_version="12"),
            KindCount(plural="pods", count=20, malformed=1, resource_version="15"),
        ),
        unread=(
            UnreadKind(
                plural="poddisruptionbudgets",
                because="forbidden",
                means=ABSENCE_MEANS["poddisruptionbudgets"],
            ),
        ),
        malformed=("Pod shop/web-1: metadata.labels should be a map",),
        documents=(RecordedDocument(name="scheduler-config.yaml", size_bytes=488),),
        warnings=("csinodes.json: storage.k8s.io/v1 CSINodeList is not used",),
        recorded_from="https://10.0.0.1",
        recorded_at="2026-11-20T12:00:10Z",
        newest_metric="2026-11-20T12:00:00Z",
        oldest_metric="2026-11-20T11:59:30Z",
        metrics_age_seconds=10.0,
    )

    assert snapshot_table(info).plain == snapshot
