"""The cluster as it is read: objects from an API server or a recording, as records and as columns.

Nothing is imported here, so that checking a policy, which needs only ``selectors`` and ``quantities``, does
without numpy.
"""
