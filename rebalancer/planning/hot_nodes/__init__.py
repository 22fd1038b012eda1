"""Which nodes are hot, by which rule, and how far each must cool."""
