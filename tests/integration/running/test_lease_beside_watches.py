"""The lease is renewed whatever watches do: they hold no connection and no lock that it needs."""

from __future__ import annotations

from kubernetes import client

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import official_login
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.execution.lease import RunLease
from rebalancer_demo import Fault
from tests.integration.demo.builders import START
from tests.integration.reading.servers import a_sandbox
from tests.waiting import eventually

CONNECTIONS = 1  # that are kept: many fewer than there are watches


def test_a_lease_is_renewed_while_watches_hold_every_connection_and_their_lock() -> None:
    with a_sandbox(bookmark_seconds=3600.0) as sandbox:
        settings = client.Configuration(host=sandbox.url)
        settings.retries, settings.connection_pool_maxsize = False, CONNECTIONS
        with client.ApiClient(settings) as connection:
            api = RawApi(KubernetesClient(official_login(connection)))
            with LiveCluster(api, lambda: START, watch_above=0) as cluster:
                cluster.current()
                feeds = list(cluster.feeds.values())
                eventually(lambda: all(feed.connected for feed in feeds), awaited="every watch is open")
                assert len(feeds) > 2 * CONNECTIONS

                lease = RunLease(api, "kube-system", "rebalancer", "one", lambda: START)
                held = lease.acquire()
                with cluster._changed:  # no watch can take an event, none can be given up
                    for _ in range(5):
                        before = held._began
                        held.renew()
                        assert held._began > before
                        held.ensure()
                # Nor does a list that does not come to its end keep it waiting.
                sandbox.faults.add(Fault("latency", path="/api/v1/pods", seconds=0.5, times=0))
                for feed in feeds:
                    feed.hurry()
                held.renew()
                assert held.held
            connection.rest_client.pool_manager.clear()
