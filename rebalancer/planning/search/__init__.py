"""Which pods to move: the search for moves that relieve hot nodes, within the limits."""
