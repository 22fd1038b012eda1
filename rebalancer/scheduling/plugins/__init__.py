"""The plugins of the scheduler, one a file, named as there; each beside the formula it follows."""
