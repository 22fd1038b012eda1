"""Dumps."""
