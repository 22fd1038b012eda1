"""Decides which pods to evict: a plan is a function of its inputs, and a value; see ``planner``.

Importing this package imports nothing else, since policies read the settings of its strategies.
"""
