"""Whether the cluster's scheduler decides as the model does: every binding, computed and compared.

Nothing here is bound or evicted, and nothing is read: changes that watches brought are decided again.
"""
