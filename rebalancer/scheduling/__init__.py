"""What the scheduler will do: its cycle and plugins over arrays, on a working copy of the cluster."""
