"""Node properties."""
