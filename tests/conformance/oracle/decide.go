//go:build from131

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// notACandidate is the reason of nodes that a PreFilter plugin's list of node names leaves out.
const notACandidate = "PreFilterResult"

func answerRequest(asked *request) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made, err := newCluster(ctx, asked)
	if err != nil {
		return nil, err
	}
	if asked.Landings != nil && asked.Landings.Sequence {
		return made.answerSequences(asked)
	}
	if asked.Landings != nil {
		return made.answerLandings(asked)
	}
	decided := answer{ID: asked.ID, Pods: []decision{}}
	for i := range made.pending {
		pod := &made.pending[i]
		decision, err := made.decide(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if asked.Preemption && decision.Chosen == "" && decision.Error == "" {
			if err := made.addNomination(pod, decision); err != nil {
				return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		decided.Pods = append(decided.Pods, *decision)
	}
	return decided, nil
}

// decide runs one scheduling cycle on every node and assumes the pod on the chosen one, volumes included. Unlike the
// scheduler's own loop it examines all nodes and scores them even if only one is feasible, so that every number can
// be compared; of nodes with the same total it takes the first by name.
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
	restriction, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		reason := status.Plugin() + ": " + status.Message()
		if status.IsRejected() {
			made.PreFilter = reason
		} else {
			made.Error = reason
		}
		return made, nil
	}
	feasible := all[:0:0]
	for _, info := range all {
		name := info.Node().Name
		if !restriction.AllNodes() && !restriction.NodeNames.Has(name) {
			made.Nodes[name] = node{Filter: notACandidate}
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, info)
		case status.IsRejected():
			made.Nodes[name] = node{Filter: status.Plugin() + ": " + status.Message()}
		default:
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
	}
	if len(feasible) == 0 {
		return made, nil
	}
	totals := map[string]int64{}
	if profile.HasScorePlugins() {
		if status := profile.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
		scored, status := profile.RunScorePlugins(ctx, state, pod, feasible)
		if !status.IsSuccess() {
			return &decision{Pod: made.Pod, Error: status.Message(), Nodes: map[string]node{}}, nil
		}
		for _, one := range scored {
			scores := make(map[string]int64, len(one.Scores))
			for _, score := range one.Scores {
				scores[score.Name] = score.Score
			}
			total := one.TotalScore
			totals[one.Name] = total
			made.Nodes[one.Name] = node{Scores: scores, Total: &total}
		}
	} else {
		for _, info := range feasible {
			total := int64(1)
			totals[info.Node().Name] = total
			made.Nodes[info.Node().Name] = node{Total: &total}
		}
	}
	for name, total := range totals {
		best, found := totals[made.Chosen]
		if !found || total > best || total == best && name < made.Chosen {
			made.Chosen = name
		}
	}
	if _, passes := totals[pod.Status.NominatedNodeName]; passes {
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
	if err := c.sched.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return err
	}
	c.sched.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := profile.RunReservePluginsReserve(ctx, state, assumed, host); !status.IsSuccess() {
		return fmt.Errorf("reserve: %s: %s", status.Plugin(), status.Message())
	}
	return nil
}
