"""Who recreates a pod: its controllers, their autoscalers, and what the replacement will be."""
