"""After a wave: which pods replaced the evicted ones, and whether they landed as planned."""
