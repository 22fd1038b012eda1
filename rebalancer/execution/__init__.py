"""Carries out a plan: evicts in waves, waits, checks every landing, brakes, journals. It decides nothing."""
