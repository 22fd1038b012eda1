"""What one run leaves for the next: streaks of hot nodes, past moves; and where that is kept."""
