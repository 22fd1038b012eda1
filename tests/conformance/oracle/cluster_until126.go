//go:build !from131

package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// syncTimeout is for a machine that is busy; caches of a case are filled in some milliseconds.
const syncTimeout = 60 * time.Second

// volumeCachesDelay lets the volume plugins' own caches follow their informers: they have no mark of having caught up.
const volumeCachesDelay = 20 * time.Millisecond

// cluster is a scheduler with everything of a case in its caches.
type cluster struct {
	context context.Context
	client  *fake.Clientset
	sched   *scheduler.Scheduler
	pending []v1.Pod
}

// loadConfiguration reads a configuration as kube-scheduler reads its --config file.
func loadConfiguration(text string) (*config.KubeSchedulerConfiguration, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	loaded, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s is no KubeSchedulerConfiguration", kind)
	}
	loaded.TypeMeta.APIVersion = kind.GroupVersion().String()
	return loaded, invalid(validation.ValidateKubeSchedulerConfiguration(loaded))
}

// newCluster starts a scheduler for a case; it lives until the context ends.
func newCluster(ctx context.Context, asked *request) (*cluster, error) {
	loaded, err := loadConfiguration(asked.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	running, err := decodePods(asked.objectsOf("pods"))
	if err != nil {
		return nil, err
	}
	pending, err := decodePods(asked.Pending)
	if err != nil {
		return nil, err
	}
	made := &cluster{context: ctx, pending: pending}
	pods := append(running, pending...)
	if made.client, err = newClient(asked, append([]v1.Pod(nil), pods...)); err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: made.client.EventsV1()})
	go func() { <-ctx.Done(); broadcaster.Shutdown() }()
	factory := scheduler.NewInformerFactory(made.client, 0)
	made.sched, err = newScheduler(ctx, made.client, factory, profile.NewRecorderFactory(broadcaster), loaded)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	factory.Start(ctx.Done())
	if err := made.waitForCaches(factory.WaitForCacheSync, len(asked.objectsOf("nodes")), pods); err != nil {
		return nil, err
	}
	if err := made.renewNodes(factory); err != nil {
		return nil, err
	}
	if len(asked.objectsOf("persistentVolumeClaims")) > 0 {
		time.Sleep(volumeCachesDelay)
	}
	return made, nil
}

// renewNodes updates every node once in the cache, as the heartbeats of kubelets do: on how many nodes an image is
// counts for a node from its last update.
func (c *cluster) renewNodes(factory informers.SharedInformerFactory) error {
	nodes, err := factory.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := c.updateNode(node); err != nil {
			return err
		}
	}
	return nil
}

// waitForCaches returns once the informers have listed everything and the scheduler's cache and queue have seen it.
func (c *cluster) waitForCaches(
	listed func(<-chan struct{}) map[reflect.Type]bool, nodes int, pods []v1.Pod,
) error {
	assigned, waiting := 0, 0
	for i := range pods {
		_, responsible := c.sched.Profiles[pods[i].Spec.SchedulerName]
		switch {
		case finished(pods[i]):
		case pods[i].Spec.NodeName != "":
			assigned++
		case responsible:
			waiting++
		}
	}
	once := make(chan struct{})
	close(once)
	for deadline := time.Now().Add(syncTimeout); time.Now().Before(deadline); time.Sleep(500 * time.Microsecond) {
		complete := true
		for _, synced := range listed(once) {
			complete = complete && synced
		}
		if complete && c.nodeCount() == nodes && c.podCount() == assigned && c.waitingCount() == waiting {
			return nil
		}
	}
	return fmt.Errorf("caches were not filled in %s: %d of %d nodes, %d of %d pods, %d of %d waiting",
		syncTimeout, c.nodeCount(), nodes, c.podCount(), assigned, c.waitingCount(), waiting)
}

// frameworkOf is the profile that places a pod.
func (c *cluster) frameworkOf(pod *v1.Pod) (framework.Framework, error) {
	found, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile has schedulerName %s", pod.Spec.SchedulerName)
	}
	return found, nil
}

// update fills the snapshot, whose type is internal: it is inferred from the cache's own method.
func update[S any](updateSnapshot func(S) error, lister any) error {
	return updateSnapshot(lister.(S))
}
