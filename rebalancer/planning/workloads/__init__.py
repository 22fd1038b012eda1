"""The controllers that own pods, their autoscalers, and the pod that replaces an evicted one."""
