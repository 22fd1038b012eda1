"""Objects as columns: nodes, pods and pod classes, metrics."""
