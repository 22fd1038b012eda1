"""Where a policy says load figures come from: each source's settings, and those of Prometheus."""
