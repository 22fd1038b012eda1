"""Typed records of the Kubernetes objects we read, with the fields we use and no others.

Decoded by msgspec straight from bytes. Maps and lists may be ``null`` on the wire, so both are optional;
the helpers of ``selectors`` and ``requests`` read them as empty. Quantities and times stay text until
they are needed: a malformed one is then reported with the object it stands in.

The modules hold nothing but records, so each is taken whole: a record is named where it is declared.
"""

from rebalancer.cluster.records.base import *  # noqa: F403
from rebalancer.cluster.records.pods import *  # noqa: F403
from rebalancer.cluster.records.storage import *  # noqa: F403
from rebalancer.cluster.records.workloads import *  # noqa: F403
