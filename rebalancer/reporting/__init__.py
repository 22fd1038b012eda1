"""Presents values of the earlier stages as tables, JSON, YAML, metrics and documentation pages.

Nothing is decided here. Import the module you need: tables need rich, metrics need prometheus-client, and
formats need neither.
"""
