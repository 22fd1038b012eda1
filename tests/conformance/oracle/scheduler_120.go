//go:build !from122

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/core"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

func init() {
	lists["poddisruptionbudgets"] = func() runtime.Object { return &policyv1beta1.PodDisruptionBudgetList{} }
	lists["csistoragecapacities"] = func() runtime.Object { return &storagev1alpha1.CSIStorageCapacityList{} }
}

func newScheduler(
	ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory,
	recorders profile.RecorderFactory, loaded *config.KubeSchedulerConfiguration,
) (*scheduler.Scheduler, error) {
	return scheduler.New(client, factory, recorders, ctx.Done(),
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithExtenders(loaded.Extenders...),
		scheduler.WithParallelism(loaded.Parallelism))
}

func invalid(errors field.ErrorList) error { return errors.ToAggregate() }

func (c *cluster) nodeCount() int {
	count := 0
	for _, info := range c.sched.SchedulerCache.Dump().Nodes {
		if info.Node() != nil {
			count++
		}
	}
	return count
}

func (c *cluster) podCount() int {
	count, _ := c.sched.SchedulerCache.PodCount()
	return count
}

func (c *cluster) waitingCount() int {
	return len(c.sched.SchedulingQueue.PendingPods())
}

func (c *cluster) assumePod(pod *v1.Pod) error { return c.sched.SchedulerCache.AssumePod(pod) }

func (c *cluster) updateNode(node *v1.Node) error {
	return c.sched.SchedulerCache.UpdateNode(node, node)
}

func (c *cluster) updateSnapshot(profile framework.Framework) error {
	return update(c.sched.SchedulerCache.UpdateSnapshot, any(profile.SnapshotSharedLister()))
}

// preFilter says which nodes are looked at, or which plugin rejects the pod. A status does not name its plugin; the
// only one that rejects pods here is VolumeBinding.
func preFilter(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod,
) (func(string) bool, string, *framework.Status) {
	status := profile.RunPreFilterPlugins(ctx, state, pod)
	return func(string) bool { return true }, volumebinding.Name, status
}

// rejecting remembers which plugin rejected the node that was looked at last.
type rejecting struct {
	framework.PreemptHandle
	plugin string
}

func (r *rejecting) RunFilterPlugins(
	ctx context.Context, state *framework.CycleState, pod *v1.Pod, info *framework.NodeInfo,
) framework.PluginToStatus {
	statuses := r.PreemptHandle.RunFilterPlugins(ctx, state, pod, info)
	for plugin := range statuses {
		r.plugin = plugin
	}
	return statuses
}

// filter says whether the node passes, or which plugin rejects it.
func filter(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod, info *framework.NodeInfo,
) (string, *framework.Status) {
	watched := &rejecting{PreemptHandle: profile.PreemptHandle()}
	_, status, err := core.PodPassesFiltersOnNode(ctx, watched, state, pod, info)
	if err != nil {
		return watched.plugin, framework.AsStatus(err)
	}
	return watched.plugin, status
}

// eachScore calls a function with each score, weighted: its node, its plugin, and the score.
func eachScore(scored framework.PluginToNodeScores, call func(string, string, int64)) {
	for plugin, scores := range scored {
		for _, one := range scores {
			call(one.Name, plugin, one.Score)
		}
	}
}
