// Package podcapacity is the score plugin PodCapacityOfNode: the fewer pods a node has, the higher its score.
package podcapacity

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is what a scheduler's configuration calls the plugin.
const Name = "PodCapacityOfNode"

// PodCapacity scores a node by the share of its room for pods that is free.
type PodCapacity struct{}

var _ scorePlugin = &PodCapacity{}

// New builds the plugin; it takes no arguments.
func New(context.Context, runtime.Object, handle) (plugin, error) {
	return &PodCapacity{}, nil
}

// Name of the plugin.
func (*PodCapacity) Name() string { return Name }

// Score is 100 × free ÷ allocatable pods, before the pod is counted.
func (*PodCapacity) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	allowed := int64(node.GetAllocatable().GetAllowedPodNumber())
	free := allowed - int64(len(node.GetPods()))
	if allowed <= 0 || free <= 0 {
		return minScore, nil
	}
	return maxScore * free / allowed, nil
}

// ScoreExtensions is none: the score is a share of 100 as it is.
func (*PodCapacity) ScoreExtensions() scoreExtensions { return nil }
