"""Plans, nodes and simulations as one HTML file each, for change requests: no network, no script."""
