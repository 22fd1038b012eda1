"""Whether a pod may be evicted: a table of rules, each of which names the reason it refuses for."""
