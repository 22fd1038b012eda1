"""Reads a cluster, live or recorded: typed records, exact quantities, and the snapshot in columns."""
