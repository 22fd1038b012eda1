"""Questions about changes of a cluster, answered on a copy of it by the model that plans are made with.

How many more pods fit, what a drained or added node changes, why nothing is moved, and which policy suits.
"""
