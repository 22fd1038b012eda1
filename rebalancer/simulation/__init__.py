"""Many rebalancing cycles on a recorded cluster: plan, land as the model says, load the nodes anew.

Nothing here touches a cluster; landings are drawn from the model's own distribution by a seed.
"""
