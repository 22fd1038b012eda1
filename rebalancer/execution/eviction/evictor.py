"""One eviction through the Eviction API, never a DELETE; every answer is reduced to one verdict.

The uid travels as a precondition, so that a new pod of the same name is never evicted. An answer that says
nothing certain (a lost connection, 409, 5xx) is settled by reading the pod again:

    the lease or a brake forbids it      SKIPPED, without a request
    429 from a budget                    try again; REFUSED at the end
    429 of an evacuation that began      STARTED, never asked again
    400, 405, 410, 413, 422              REFUSED, never asked again, for any pod unless a webhook denied it
    connection lost, pod is terminating  EVICTED
    connection lost, pod is unchanged    try again; UNKNOWN at the end: the request may still arrive
    connection lost, then 404            EVICTED: the lost request did it
    404 to the first request             GONE: somebody else deleted the pod
"""

from __future__ import annotations

from rebalancer.cluster.live.answers import Answer, NoAnswerError, StatusError
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.execution.eviction.move_requests import READ_SECONDS, Attempt, Attempts, Requester, rejected
from rebalancer.execution.eviction.verdicts import EvictionAnswer, Verdict
from rebalancer.execution.observed_pods import PodReader
from rebalancer.planning.plan import Move

_MAX_BYTES = 1 << 20
_MAX_REASON = 1024  # characters
REQUESTER = "rebalancer"
_TWO_BUDGETS = "more than one PodDisruptionBudget"
_GATEWAY_TIMEOUTS = frozenset({502, 504})  # a proxy stopped waiting: the request may still be carried out
_STORAGE = "etcdserver:"  # how the API server words that its storage did not answer in time
# How KubeVirt, and whoever follows it, answers: the pod was not evicted, and is moved in another way
# (kubevirt pkg/virt-api/webhooks/validating-webhook/admitters/pod-eviction-admitter.go).
_EVACUATION = "Eviction triggered evacuation"
_NO_RIGHT = "cannot create resource"  # how the API server words a missing right, and no webhook does


def evict(requester: Requester, move: Move) -> EvictionAnswer:
    """Ask the API server to evict the pod of a move; repeated while that is safe and may help."""
    return _Eviction(requester, move).settle(f"evict {move.pod.full_name}")


class _Eviction(Attempts):
    """The requests made for one pod, and what the earlier ones left open."""

    def __init__(self, requester: Requester, move: Move) -> None:
        super().__init__(requester, move)
        self._pods = PodReader(requester.api.finishing())
        self._answer_lost = False  # a request may still arrive, or still be at work

    def next(self) -> Attempt:
        """Send one request and find out what it did."""
        forbidden = self.forbidden()
        if forbidden is not None:
            return forbidden
        self.count += 1
        try:
            answer = self._post()
        except StatusError as error:
            return self._refused(error)
        except StopRequestedError as error:
            self._answer_lost = self.perhaps_sent = True
            return self._looked_up(f"the answer was not awaited ({error.message})")
        except NoAnswerError as error:
            self._answer_lost = self.perhaps_sent = True
            return self._looked_up(f"the answer was lost ({error.kind})")
        return self.accepted(Verdict.EVICTED, "accepted by the API server", answer)

    def _post(self) -> Answer:
        """Send one eviction. Raises StatusError, NoAnswerError or StopRequestedError."""
        pod, client = self.move.pod, self.requester.api.client
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            # For audit logs and admission webhooks, under the names that descheduler made known.
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "annotations": {"requester": REQUESTER, "reason": self.move.because[:_MAX_REASON]},
            },
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        return client.send(
            client.core.create_namespaced_pod_eviction,
            pod.name,
            pod.namespace,
            body,
            max_bytes=_MAX_BYTES,
            read_seconds=READ_SECONDS,
            deadline=self.requester.deadline,
            what=f"evict {pod.full_name}",
            body_needed=False,
            **self.requester.options,
        )

    def _refused(self, error: StatusError) -> Attempt:
        message, status = error.message, error.status
        if status == 429 and _EVACUATION in message:
            return Attempt(Verdict.STARTED, message)
        if status == 429:
            budgets = " ".join(error.causes("DisruptionBudget"))[:500]
            return Attempt(None, budgets or message, self._not_accepted, error.retry_after)
        if status == 404:
            return self._gone("the pod is gone already")
        if status == 409:
            return self._looked_up(message, skipped="the pod was replaced by another one")
        if status >= 500:
            self.perhaps_sent = True
            self._answer_lost |= status in _GATEWAY_TIMEOUTS or _STORAGE in message
            return self._looked_up(message, final=_TWO_BUDGETS in message)
        if status in (401, 403):
            missing = status == 401 or _NO_RIGHT in message
            return Attempt(self._not_accepted, message, rights_missing=missing)
        return rejected(self._not_accepted, status, message)

    @property
    def _not_accepted(self) -> Verdict:
        """The verdict after a refusal: an earlier request whose answer was lost may still arrive."""
        return Verdict.UNKNOWN if self._answer_lost else Verdict.REFUSED

    def _gone(self, because: str) -> Attempt:
        """The pod is gone: evicted by an earlier request, if one may have been carried out."""
        if self.perhaps_sent:
            return Attempt(
                Verdict.EVICTED, f"{because}: an earlier request that returned an error did evict it"
            )
        return Attempt(Verdict.GONE, because)

    def _looked_up(self, message: str, *, skipped: str = "", final: bool = False) -> Attempt:
        """Read the pod again to find out what a request did whose answer does not say."""
        try:
            pod = self._pods.pod(self.move.pod.namespace, self.move.pod.name)
        except RebalancerError as error:
            return Attempt(Verdict.UNKNOWN, f"{message}, and the pod cannot be read: {error}")
        if pod is None or pod.metadata.uid != self.move.pod.uid:
            if skipped:
                return self._gone(skipped)
            return Attempt(Verdict.EVICTED, f"{message}; the pod is gone")
        if pod.terminating:
            return Attempt(Verdict.EVICTED, f"{message}; the pod is terminating")
        because = f"{message}; the pod is still there"
        return Attempt(self._not_accepted if final else None, because, self._not_accepted)
