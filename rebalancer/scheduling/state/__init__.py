"""The cluster as the scheduler sees it: node and pod columns, counters, ports and volumes."""
