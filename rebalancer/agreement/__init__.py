"""Whether the cluster's scheduler decides as the model does: every binding, computed and compared.

Nothing here is bound or evicted: changes that watches brought are decided again. What was measured is one
figure of the state, to which a run may be held.
"""
