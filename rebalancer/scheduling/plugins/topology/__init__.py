"""Plugins that count other pods by topology domain: inter-pod affinity and topology spread."""
