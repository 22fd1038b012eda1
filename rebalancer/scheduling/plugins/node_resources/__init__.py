"""Plugins that compare requests with allocatable resources."""
