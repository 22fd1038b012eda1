"""The clusters of the descheduler's own unit tests, and how they are taken from its source."""
