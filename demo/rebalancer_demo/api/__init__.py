"""The embedded API server over HTTP: requests, answers, watches, evictions."""
