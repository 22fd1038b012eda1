"""Resource requests of pods and the integer arithmetic of the resource plugins."""
