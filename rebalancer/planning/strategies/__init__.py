"""What to move: strategies that add moves to one plan builder, within limits and waves."""
