"""One click command or group a file; each imports what it needs when it runs."""
