"""Load figures of nodes and pods, and the windows they are taken over."""
