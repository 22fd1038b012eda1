"""Many rebalancing cycles on a recorded cluster, by landings that the model draws."""
