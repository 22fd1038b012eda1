"""What is known about the cluster's scheduler: its version, its configuration, plugins that are not ours."""
