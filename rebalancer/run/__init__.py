"""Joins the stages: what each command does, as one function that takes options and returns a value."""
