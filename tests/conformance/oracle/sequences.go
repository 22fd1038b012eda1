//go:build from131

package main

import (
	"context"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// sequencesAnswer is where the pending pods went one after the other: for each start and repeat, in that order, the
// nodes by pod; "" is no node. Every sequence begins on the cluster of the case, and within one each pod counts on
// its node for the pods after it, and the start index is left to the scheduler. Microseconds are the processor time of
// each search, in the same order.
type sequencesAnswer struct {
	ID           string     `json:"id"`
	Sequences    [][]string `json:"sequences"`
	Microseconds [][]int64  `json:"microseconds,omitempty"`
}

func (c *cluster) answerSequences(asked *request) (any, error) {
	answered := sequencesAnswer{ID: asked.ID, Sequences: [][]string{}}
	starts, err := c.startsOf(asked.Landings)
	if err != nil {
		return nil, err
	}
	defer occupyCores(asked.Landings.Cores)()
	for _, start := range starts {
		for try := 0; try < max(asked.Landings.Repeats, 1); try++ {
			if err := c.startAt(start); err != nil {
				return nil, err
			}
			nodes, microseconds, err := c.sequence()
			if err != nil {
				return nil, err
			}
			answered.Sequences = append(answered.Sequences, nodes)
			if asked.Landings.Timed {
				answered.Microseconds = append(answered.Microseconds, microseconds)
			}
		}
	}
	return answered, nil
}

// sequence places all pending pods, each as the scheduler's own loop does, and takes them away again. It returns their
// nodes, and the processor time of each search in microseconds.
func (c *cluster) sequence() ([]string, []int64, error) {
	var nodes []string
	var microseconds []int64
	for i := range c.pending {
		pod := &c.pending[i]
		profile, err := c.frameworkOf(pod)
		if err != nil {
			return nil, nil, err
		}
		if err := c.updateSnapshot(profile); err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(c.context)
		defer cancel()
		state := framework.NewCycleState()
		began := processorMicroseconds()
		result, err := schedulePod(ctx, c.sched, profile, state, pod)
		microseconds = append(microseconds, processorMicroseconds()-began)
		if _, rejected := err.(*framework.FitError); err != nil && !rejected {
			return nil, nil, err
		}
		nodes = append(nodes, result.SuggestedHost)
		if result.SuggestedHost == "" {
			continue
		}
		if err := c.assume(ctx, profile, state, pod, result.SuggestedHost); err != nil {
			return nil, nil, err
		}
		defer c.forget(ctx, profile, state, pod, result.SuggestedHost)
	}
	return nodes, microseconds, nil
}

// processorMicroseconds is the processor time of this program so far, of the user and of the system.
func processorMicroseconds() int64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1000
}

// forget takes back what assume did.
func (c *cluster) forget(
	ctx context.Context, profile framework.Framework, state *framework.CycleState, pod *v1.Pod, host string,
) {
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = host
	profile.RunReservePluginsUnreserve(ctx, state, assumed, host)
	if err := c.sched.Cache.ForgetPod(klog.FromContext(ctx), assumed); err != nil {
		panic(err)
	}
}
