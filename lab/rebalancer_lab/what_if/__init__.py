"""Questions about a change that nobody has made: drained, added or scaled, or more pods of a kind (fit)."""
