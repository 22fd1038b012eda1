// Package podcapacity is the score plugin PodCapacityOfNode: the fewer pods a node has, the higher its score.
package podcapacity

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Name is what a scheduler's configuration calls the plugin.
const Name = "PodCapacityOfNode"

// PodCapacity scores a node by the share of its room for pods that is free.
type PodCapacity struct {
	handle framework.Handle
}

var _ framework.ScorePlugin = &PodCapacity{}

// New builds the plugin; it takes no arguments.
func New(_ runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	return &PodCapacity{handle}, nil
}

// Name of the plugin.
func (*PodCapacity) Name() string { return Name }

// Score is 100 × free ÷ allocatable pods, before the pod is counted.
func (p *PodCapacity) Score(_ context.Context, _ *framework.CycleState, pod *v1.Pod, name string) (int64, *framework.Status) {
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return 0, framework.NewStatus(framework.Error, err.Error())
	}
	allowed := int64(node.Allocatable.AllowedPodNumber)
	free := allowed - int64(len(node.Pods))
	score := framework.MinNodeScore
	if allowed > 0 && free > 0 {
		score = framework.MaxNodeScore * free / allowed
	}
	klog.Infof("pod %v node %v score is %v", pod.Name, name, score)
	return score, nil
}

// ScoreExtensions is none: the score is a share of 100 as it is.
func (*PodCapacity) ScoreExtensions() framework.ScoreExtensions { return nil }
