"""What a user sees: every command as a user types it, pictures of what it prints, and the time that takes."""
