"""Days of a cluster: recorded, filled in from Prometheus, replayed under other policies, tuned on."""
