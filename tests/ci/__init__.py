"""What CI decides by: which failures are flakes, and which flakes may not be."""
