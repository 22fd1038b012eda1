"""``rebalancer serve`` on a real control plane while the load drifts: what it did, seen and drawn."""
