"""Where a replacement may land, with which probability, and whether each landing is acceptable."""
