"""The cluster and the scenes of ``rebalancer demo``."""
