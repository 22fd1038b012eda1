"""Answers to questions as tables for a terminal, one module per question."""
