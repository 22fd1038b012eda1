"""Settings of the scheduler that places the replacements, and mirrors of its plugins."""
