//go:build from134 && !from135

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// waiting is a filter that passes every node, after a while.
type waiting struct{}

func (waiting) Name() string { return waitingName }

func (waiting) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	wait()
	return nil
}

func newWaiting(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
	return waiting{}, nil
}
