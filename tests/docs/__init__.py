"""The documentation, held to what the program does."""
