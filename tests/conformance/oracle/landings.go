//go:build from131

package main

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// landings are the nodes a pod was placed on, one for each start and repeat, in that order; "" is no node. No
// placement is assumed in between: all searches are of the same cluster.
type landings struct {
	Pod   string   `json:"pod"`
	Nodes []string `json:"nodes"`
}

type landingsAnswer struct {
	ID       string     `json:"id"`
	Landings []landings `json:"landings"`
}

func (c *cluster) answerLandings(asked *request) (any, error) {
	answered := landingsAnswer{ID: asked.ID, Landings: []landings{}}
	for i := range c.pending {
		found, err := c.land(&c.pending[i], asked.Landings)
		if err != nil {
			return nil, err
		}
		answered.Landings = append(answered.Landings, *found)
	}
	return answered, nil
}

func (c *cluster) land(pod *v1.Pod, asked *landingsAsked) (*landings, error) {
	profile, err := c.frameworkOf(pod)
	if err != nil {
		return nil, err
	}
	if err := c.updateSnapshot(profile); err != nil {
		return nil, err
	}
	starts, err := c.startsOf(asked)
	if err != nil {
		return nil, err
	}
	defer occupyCores(asked.Cores)()
	found := &landings{Pod: pod.Namespace + "/" + pod.Name, Nodes: []string{}}
	for _, start := range starts {
		for try := 0; try < max(asked.Repeats, 1); try++ {
			if err := c.startAt(start); err != nil {
				return nil, err
			}
			host, err := c.search(profile, pod)
			if _, rejected := err.(*framework.FitError); err != nil && !rejected {
				return nil, err
			}
			found.Nodes = append(found.Nodes, host)
		}
	}
	return found, nil
}

// startsOf are the start indices that a case asks for.
func (c *cluster) startsOf(asked *landingsAsked) ([]int, error) {
	starts := asked.Starts
	if len(starts) > 0 || len(c.pending) == 0 {
		return starts, nil
	}
	profile, err := c.frameworkOf(&c.pending[0])
	if err != nil {
		return nil, err
	}
	if err := c.updateSnapshot(profile); err != nil {
		return nil, err
	}
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	for start := range all {
		starts = append(starts, start)
	}
	return starts, err
}

// occupyCores makes filters keep one of so many cores busy, until what it returns is called; 0 leaves all as it is.
func occupyCores(cores int) func() {
	if cores == 0 {
		return func() {}
	}
	occupiesCore.Store(true)
	before := runtime.GOMAXPROCS(cores)
	return func() {
		runtime.GOMAXPROCS(before)
		occupiesCore.Store(false)
	}
}

// search is one search of the scheduler as it is: it samples nodes, scores them and picks one.
func (c *cluster) search(profile framework.Framework, pod *v1.Pod) (string, error) {
	ctx, cancel := context.WithCancel(c.context)
	defer cancel()
	result, err := schedulePod(ctx, c.sched, profile, framework.NewCycleState(), pod)
	return result.SuggestedHost, err
}

// startAt sets the node at which the next search starts. The scheduler keeps it to itself, and it decides landings;
// from 1.38 on its algorithm does.
func (c *cluster) startAt(index int) error {
	holder := reflect.ValueOf(c.sched).Elem()
	if algorithm := holder.FieldByName("algorithm"); algorithm.IsValid() {
		holder = algorithm.Elem()
	}
	field := holder.FieldByName("nextStartNodeIndex")
	if !field.IsValid() {
		return fmt.Errorf("this scheduler has no start index")
	}
	*(*int)(unsafe.Pointer(field.UnsafeAddr())) = index
	return nil
}

const (
	waitingName = "OracleWaits"
	// waitingTime is much longer than what a filter takes, so that workers on few cores keep step.
	waitingTime = 50 * time.Microsecond
)

// occupiesCore is whether a filter that waits keeps its core from other workers.
var occupiesCore atomic.Bool

// wait is what the filter does. Go's own sleep gives the core to another worker; one that only the kernel knows of
// keeps it, as a filter that computes does, and needs no core of this machine.
func wait() {
	if !occupiesCore.Load() {
		time.Sleep(waitingTime)
		return
	}
	pause := syscall.NsecToTimespec(waitingTime.Nanoseconds())
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
}

// enableWaiting adds the filter that waits to every profile.
func enableWaiting(profiles []config.KubeSchedulerProfile) {
	for i := range profiles {
		enabled := &profiles[i].Plugins.Filter.Enabled
		*enabled = append(*enabled, config.Plugin{Name: waitingName})
	}
}
