//go:build from126 && !from131

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

func init() {
	lists["poddisruptionbudgets"] = func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} }
	lists["csistoragecapacities"] = func() runtime.Object { return &storagev1.CSIStorageCapacityList{} }
}

func newScheduler(
	ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory,
	recorders profile.RecorderFactory, loaded *config.KubeSchedulerConfiguration,
) (*scheduler.Scheduler, error) {
	return scheduler.New(client, factory, nil, recorders, ctx.Done(),
		scheduler.WithComponentConfigVersion(loaded.TypeMeta.APIVersion),
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithExtenders(loaded.Extenders...),
		scheduler.WithParallelism(loaded.Parallelism))
}

func invalid(err error) error { return err }

func (c *cluster) nodeCount() int {
	count := 0
	for _, info := range c.sched.Cache.Dump().Nodes {
		if info.Node() != nil {
			count++
		}
	}
	return count
}

func (c *cluster) podCount() int {
	count, _ := c.sched.Cache.PodCount()
	return count
}

func (c *cluster) waitingCount() int {
	pods, _ := c.sched.SchedulingQueue.PendingPods()
	return len(pods)
}

func (c *cluster) assumePod(pod *v1.Pod) error { return c.sched.Cache.AssumePod(pod) }

func (c *cluster) updateNode(node *v1.Node) error {
	c.sched.Cache.UpdateNode(node, node)
	return nil
}

func (c *cluster) updateSnapshot(profile framework.Framework) error {
	return update(c.sched.Cache.UpdateSnapshot, any(profile.SnapshotSharedLister()))
}

// preFilter says which nodes are looked at, or which plugin rejects the pod.
func preFilter(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod,
) (func(string) bool, string, *framework.Status) {
	restriction, status := profile.RunPreFilterPlugins(ctx, state, pod)
	isCandidate := func(node string) bool { return restriction.AllNodes() || restriction.NodeNames.Has(node) }
	return isCandidate, rejectedBy(status), status
}

// filter says whether the node passes, or which plugin rejects it.
func filter(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod, info *framework.NodeInfo,
) (string, *framework.Status) {
	status := profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	return rejectedBy(status), status
}

// eachScore calls a function with each score, weighted: its node, its plugin, and the score.
func eachScore(scored []framework.NodePluginScores, call func(string, string, int64)) {
	for _, one := range scored {
		for _, score := range one.Scores {
			call(one.Name, score.Name, score.Score)
		}
	}
}

func rejectedBy(status *framework.Status) string {
	if status.IsSuccess() {
		return ""
	}
	return status.FailedPlugin()
}
