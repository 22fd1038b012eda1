"""The tables that a terminal shows: one module for each kind of result."""
