"""load-watcher as a load source: its document, its client and the one built into Trimaran."""
