"""The scheduling framework: plugins, the cycle that runs them, scores, sampling and placements."""
