"""What the embedded API server stores: kinds, objects, quantities, selectors and the versioned store."""
