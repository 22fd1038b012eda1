"""A plan as one HTML file, to attach to a change request: no network, no script, printable."""
