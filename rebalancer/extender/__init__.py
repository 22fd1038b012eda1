"""``rebalancer extender``: scores for a stock kube-scheduler, over HTTP, by the plugins of the model."""

from rebalancer.extender.extender import ExtenderOptions, serve

__all__ = ["ExtenderOptions", "serve"]
