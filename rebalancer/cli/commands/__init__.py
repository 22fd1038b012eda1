"""Click commands and groups, those of one purpose a file; each imports what it needs when it runs."""
