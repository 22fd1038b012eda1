"""What a change would do: it is made on a copy of a plan's inputs, and looked at once it has settled."""
