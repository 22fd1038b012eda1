//go:build !from131

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// notACandidate is the reason of nodes that a PreFilter plugin's list of node names leaves out.
const notACandidate = "PreFilterResult"

func answerRequest(asked *request) (any, error) {
	if asked.Landings != nil || asked.Preemption {
		return nil, fmt.Errorf("searches and preemption are asked of 1.31 and later")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made, err := newCluster(ctx, asked)
	if err != nil {
		return nil, err
	}
	decided := answer{ID: asked.ID, Pods: []decision{}}
	for i := range made.pending {
		pod := &made.pending[i]
		decision, err := made.decide(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		decided.Pods = append(decided.Pods, *decision)
	}
	return decided, nil
}

// decide runs one scheduling cycle on every node and assumes the pod on the chosen one, as that of later minors does.
func (c *cluster) decide(pod *v1.Pod) (*decision, error) {
	profile, err := c.frameworkOf(pod)
	if err != nil {
		return nil, err
	}
	if err := c.updateSnapshot(profile); err != nil {
		return nil, err
	}
	made := &decision{Pod: pod.Namespace + "/" + pod.Name, Nodes: map[string]node{}}
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil || len(all) == 0 {
		return made, err
	}
	ctx, cancel := context.WithCancel(c.context)
	defer cancel()
	state := framework.NewCycleState()
	isCandidate, plugin, status := preFilter(ctx, profile, state, pod)
	if !status.IsSuccess() {
		reason := plugin + ": " + status.Message()
		if status.IsUnschedulable() {
			made.PreFilter = reason
		} else {
			made.Error = reason
		}
		return made, nil
	}
	var feasible []*v1.Node
	for _, info := range all {
		name := info.Node().Name
		if !isCandidate(name) {
			made.Nodes[name] = node{Filter: notACandidate}
			continue
		}
		plugin, status := filter(ctx, profile, state, pod, info)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, info.Node())
		case status.IsUnschedulable():
			made.Nodes[name] = node{Filter: plugin + ": " + status.Message()}
		default:
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
	}
	if len(feasible) == 0 {
		return made, nil
	}
	for _, one := range feasible {
		total := int64(0)
		if !profile.HasScorePlugins() {
			total = 1
		}
		made.Nodes[one.Name] = node{Total: &total}
	}
	if profile.HasScorePlugins() {
		if status := profile.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
		scored, status := profile.RunScorePlugins(ctx, state, pod, feasible)
		if !status.IsSuccess() {
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
		for _, one := range feasible {
			of := made.Nodes[one.Name]
			of.Scores = map[string]int64{}
			made.Nodes[one.Name] = of
		}
		eachScore(scored, func(name, plugin string, score int64) {
			made.Nodes[name].Scores[plugin] = score
			*made.Nodes[name].Total += score
		})
	}
	for _, one := range feasible {
		best, found := made.Nodes[made.Chosen]
		total := *made.Nodes[one.Name].Total
		if !found || total > *best.Total || total == *best.Total && one.Name < made.Chosen {
			made.Chosen = one.Name
		}
	}
	if nominated := made.Nodes[pod.Status.NominatedNodeName]; nominated.Total != nil {
		made.Chosen = pod.Status.NominatedNodeName // taken without scoring if it passes
	}
	return made, c.assume(ctx, profile, state, pod, made.Chosen)
}

// assume puts the pod on its node in the scheduler's cache and reserves what it needs there, as the scheduler does
// before it binds.
func (c *cluster) assume(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod, host string,
) error {
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = host
	if err := c.assumePod(assumed); err != nil {
		return err
	}
	c.sched.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := profile.RunReservePluginsReserve(ctx, state, assumed, host); !status.IsSuccess() {
		return fmt.Errorf("reserve: %s", status.Message())
	}
	return nil
}
