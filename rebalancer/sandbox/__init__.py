"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler, all
threads.
"""
