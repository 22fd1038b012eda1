"""Faults on request: refused and lost requests, misplaced and late replacements."""
