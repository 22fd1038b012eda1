//go:build from131

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// addNomination says on which node the scheduler would preempt for a pod that fits nowhere.
func (c *cluster) addNomination(pod *v1.Pod, made *decision) error {
	profile, err := c.frameworkOf(pod)
	if err != nil {
		return err
	}
	nominated, err := c.nominate(profile, pod)
	made.Nominated = &nominated
	return err
}

// nominate asks the scheduler, as it is, on which node it would preempt for this pod; "" is nowhere.
func (c *cluster) nominate(profile framework.Framework, pod *v1.Pod) (string, error) {
	ctx, cancel := context.WithCancel(c.context)
	defer cancel()
	state := framework.NewCycleState()
	_, err := schedulePod(ctx, c.sched, profile, state, pod)
	failed, rejected := err.(*framework.FitError)
	if !rejected {
		return "", err
	}
	return preempt(ctx, profile, state, pod, failed), nil
}
