//go:build from131 && !from136

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func schedulePod(
	ctx context.Context, sched *scheduler.Scheduler, profile framework.Framework, state *framework.CycleState, pod *v1.Pod,
) (scheduler.ScheduleResult, error) {
	return sched.SchedulePod(ctx, profile, state, pod)
}
