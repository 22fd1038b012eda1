"""Plans, outcomes and nodes as tables, JSON, YAML and metrics; nothing is computed here.

Import the module you need: the tables need rich, the metrics prometheus-client, the formats neither.
"""
