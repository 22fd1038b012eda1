"""A second configuration of the scheduler in shadow: what it would do with the pods that are bound now."""
