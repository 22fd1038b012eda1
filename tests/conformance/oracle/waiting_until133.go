//go:build from131 && !from134

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// waiting is a filter that passes every node, after a while.
type waiting struct{}

func (waiting) Name() string { return waitingName }

func (waiting) Filter(context.Context, *framework.CycleState, *v1.Pod, *framework.NodeInfo) *framework.Status {
	wait()
	return nil
}

func newWaiting(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
	return waiting{}, nil
}
