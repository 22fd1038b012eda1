"""A run at every interval for as long as the process lives: ``rebalancer serve``.

``serve`` is the whole service. Each of its runs is that of ``rebalancer run``, or only the plan of
``rebalancer plan``, by the same function of the pipeline.
"""

from rebalancer.service.service import Service, ServiceOptions

__all__ = ["Service", "ServiceOptions"]
