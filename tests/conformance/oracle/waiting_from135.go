//go:build from135

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// waiting is a filter that passes every node, after a while.
type waiting struct{}

func (waiting) Name() string { return waitingName }

func (waiting) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	wait()
	return nil
}

func newWaiting(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return waiting{}, nil
}
