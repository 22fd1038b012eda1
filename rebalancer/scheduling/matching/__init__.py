"""Which pods and nodes a selector, an affinity term, a spread constraint or a toleration matches."""
