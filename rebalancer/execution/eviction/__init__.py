"""Evicting one pod: the request, its verdict, and the Event that records it."""
