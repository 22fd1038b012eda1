"""All that is read for a plan: from a live cluster or a recorded one, and recordings of it."""
