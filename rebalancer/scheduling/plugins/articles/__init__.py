"""Plugins published in articles: PodCapacityOfNode and NetworkTraffic."""
