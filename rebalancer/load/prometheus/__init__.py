"""Prometheus as a load source: queries, transport, answers and the figures of nodes and pods."""
