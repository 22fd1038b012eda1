"""Evicts pods from hot nodes, only when the scheduler will place them somewhere better."""

__version__ = "0.1.0"
