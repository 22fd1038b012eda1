"""What ``snapshot`` does: records a cluster with the documents a plan needs, and describes a recording."""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalancer.cluster.dumps.writer import check_folder, save
from rebalancer.pipeline.gathering import open_api, policy_of
from rebalancer.pipeline.recording.cluster import convert, record_live
from rebalancer.pipeline.recording.description import describe_recording
from rebalancer.pipeline.recording.documents import documents_from_files, policy_documents, state_document
from rebalancer.pipeline.run_settings import PipelineOptions, RecordingOptions
from rebalancer.reporting.tables.snapshot import SnapshotInfo

__all__ = ["describe_recording", "record_cluster"]


def record_cluster(
    options: RecordingOptions, progress: Callable[[str], None], warn: Callable[[str], None]
) -> SnapshotInfo:
    """Record a cluster into a new folder, and describe what the folder holds.

    Raises InputError when a file that was given cannot be used or the folder holds something.
    """
    check_folder(options.folder)  # before the cluster is read, which takes time
    source = PipelineOptions(
        policy_path=options.policy_path,
        source=options.source,
        kubeconfig=options.kubeconfig,
        context=options.context,
        request_seconds=options.request_seconds,
    )
    loaded = policy_of(source)
    documents = documents_from_files(options)
    api = open_api(source)
    documents |= state_document(options, api)
    documents |= policy_documents(loaded, options, api, warn)
    if api is not None:
        recording = record_live(api, time.time, documents, progress, loaded, warn)
        now = time.time()
    else:
        assert options.source is not None
        recording, now = convert(options.source, documents, time.time, progress, options.max_dump_bytes)
    save(recording, options.folder, now)
    return describe_recording(options.folder, max_bytes=options.max_dump_bytes)
