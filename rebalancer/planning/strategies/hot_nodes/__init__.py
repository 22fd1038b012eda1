"""Which nodes are hot, by which rule of the policy, and how far each must cool."""
