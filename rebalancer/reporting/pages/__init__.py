"""Documentation pages that are made from the code."""
