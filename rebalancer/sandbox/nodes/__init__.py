"""Simulated nodes: kubelets, the load they use and who measures it."""
