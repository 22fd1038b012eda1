"""Several clusters: the same question to each, a few side by side, and a row for each answer."""
