"""The RebalancePolicy: its schema, defaults and units, loading with file:line errors, and its JSON schema.

``policy_file`` reads and prints policies; the sections of a policy are modules of their own.
"""
