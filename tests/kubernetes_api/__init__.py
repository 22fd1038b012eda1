"""What is derived from the sources of the Kubernetes API, and how it is renewed."""
