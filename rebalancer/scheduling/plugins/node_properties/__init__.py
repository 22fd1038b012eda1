"""Plugins that look at a node's own properties: name, taints, labels, ports, images."""
