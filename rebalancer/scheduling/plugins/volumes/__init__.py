"""Plugins that look at volumes: binding, restrictions, zones and attach limits."""
