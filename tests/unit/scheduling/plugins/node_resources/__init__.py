"""Node resources."""
