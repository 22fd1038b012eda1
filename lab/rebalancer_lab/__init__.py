"""Tools that study a cluster's past: what would have become of it under another policy."""
