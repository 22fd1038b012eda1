"""Pods that somebody else is evicting: by an annotation, or by objects of the EvictionRequest API.

KubeVirt, and others that move a pod in their own way, announce it on the pod. Since Kubernetes 1.37 (alpha)
an EvictionRequest asks for the eviction of a pod, and an Eviction is its progress; both name the pod by its
uid. Such a pod leaves without us, so it counts as one that is terminating.
"""

from __future__ import annotations

EVICTION_IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"
