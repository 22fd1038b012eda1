"""Plain-text tables for a terminal: one module a command's result."""
