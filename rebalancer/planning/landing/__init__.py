"""Where a replacement may land, with which chance, and whether that is acceptable."""
