"""Explanations of one pod or one node, as values that reports render."""
