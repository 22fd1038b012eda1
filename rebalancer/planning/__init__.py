"""Decides which pods to move: hot nodes, protections, disruption budgets, the planner, and its plan."""
