"""Commands that keep running until they are asked to stop."""
