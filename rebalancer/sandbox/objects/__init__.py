"""What the embedded API server stores: kinds of objects, selectors of queries, and the versioned store."""
