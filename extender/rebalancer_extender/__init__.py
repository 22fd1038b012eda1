"""Scores for a stock kube-scheduler, over HTTP, by the plugins of the model: `rebalancer extender`."""
