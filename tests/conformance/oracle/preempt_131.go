//go:build from131 && !from132

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// preempt runs the PostFilter plugins after a search that found no node; the name of the node nominated, if any.
func preempt(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod, failed *framework.FitError,
) string {
	result, _ := profile.RunPostFilterPlugins(ctx, state, pod, failed.Diagnosis.NodeToStatusMap)
	if result == nil || result.NominatingInfo == nil {
		return ""
	}
	return result.NominatedNodeName
}
