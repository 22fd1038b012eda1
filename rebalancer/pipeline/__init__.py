"""Joins the stages: gathers inputs, plans, and runs; commands call it and print what it returns."""
