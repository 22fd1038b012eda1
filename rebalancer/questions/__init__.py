"""Questions about a cluster that nobody wants to try out: answered on a copy of it, by the model of a plan.

How many more pods fit, what a drained or added node changes, why nothing is moved, and which policy suits.
"""
