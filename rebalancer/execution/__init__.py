"""Carries out a plan: evicts in waves, verifies every landing, stops for safety, keeps a journal.

What to move was decided by the planner; ``waves.carry_out(plan, context)`` is the only way in.
"""
