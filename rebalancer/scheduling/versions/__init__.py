"""What differs between Kubernetes minors: rules with their ranges and feature gates, and what is verified.

A ``Release`` is the scheduler that is modelled; it is passed in with the cluster.
"""
