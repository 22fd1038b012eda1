"""Decides which pods to evict: a plan is a function of its inputs, and a value; ``planner`` shows how one is made.

Importing this package imports nothing else: a policy's schema is made of settings that stand in ``strategies``.
"""
