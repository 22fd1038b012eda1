"""Commands that answer a question about a cluster and change nothing, one per file."""
