"""What nodes and pods use, and what the scheduler's load-aware plugins see of it; each figure with its age.

``sources`` reads what the policy names and joins it into a ``LoadReport``; ``plugin_sources`` reads what the
scheduler's plugins read, as a ``SchedulerView``. Nothing is imported here, so that code which computes with
these values imports neither the policy nor a network client.
"""
