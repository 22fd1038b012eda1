"""Recorded clusters: reading dumps, writing recordings, and the records they hold."""
