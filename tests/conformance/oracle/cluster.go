//go:build from131

package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the arguments of the plugins below
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"
)

// syncTimeout is for a machine that is busy; caches of a case are filled in some milliseconds.
const syncTimeout = 60 * time.Second

// volumeCachesDelay lets the volume plugins' own caches follow their informers: the scheduler waits for its own
// handlers only, and theirs have no mark of having caught up.
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
	if err := validation.ValidateKubeSchedulerConfiguration(loaded); err != nil {
		return nil, err
	}
	return loaded, nil
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
	if made.client, err = newClient(asked, append(running, pending...)); err != nil {
		return nil, err
	}
	plugins := frameworkruntime.Registry{
		targetloadpacking.Name:          targetloadpacking.New,
		loadvariationriskbalancing.Name: loadvariationriskbalancing.New,
		lowriskovercommitment.Name:      lowriskovercommitment.New,
		peaks.Name:                      peaks.New,
		noderesources.AllocatableName:   noderesources.NewAllocatable,
	}
	if asked.Landings != nil && asked.Landings.Workers > 0 {
		loaded.Parallelism = asked.Landings.Workers
	}
	if asked.Landings != nil && (asked.Landings.Together || asked.Landings.Cores > 0) {
		plugins[waitingName] = newWaiting
		enableWaiting(loaded.Profiles)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: made.client.EventsV1()})
	go func() { <-ctx.Done(); broadcaster.Shutdown() }()
	factory := newInformers(made.client)
	made.sched, err = scheduler.New(ctx, made.client, factory, nil, profile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(loaded.TypeMeta.APIVersion),
		scheduler.WithProfiles(loaded.Profiles...),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins),
		scheduler.WithExtenders(loaded.Extenders...),
		scheduler.WithParallelism(loaded.Parallelism))
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	factory.Start(ctx.Done())
	if err := made.waitForCaches(factory.WaitForCacheSync); err != nil {
		return nil, err
	}
	if len(asked.objectsOf("persistentVolumeClaims")) > 0 {
		time.Sleep(volumeCachesDelay)
	}
	return made, nil
}

// waitForCaches returns once the informers have listed everything and the scheduler's cache has seen it. Both have
// their own way to wait, at a tenth of a second a look, which many small cases cannot afford.
func (c *cluster) waitForCaches(listed func(<-chan struct{}) map[reflect.Type]bool) error {
	once := make(chan struct{})
	close(once)
	for deadline := time.Now().Add(syncTimeout); time.Now().Before(deadline); time.Sleep(500 * time.Microsecond) {
		complete := true
		for _, synced := range listed(once) {
			complete = complete && synced
		}
		if !complete {
			continue
		}
		look, cancel := context.WithTimeout(c.context, time.Millisecond)
		err := c.sched.WaitForHandlersSync(look)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("caches were not filled in %s", syncTimeout)
}

// frameworkOf is the profile that places a pod.
func (c *cluster) frameworkOf(pod *v1.Pod) (framework.Framework, error) {
	found, ok := c.sched.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile has schedulerName %s", pod.Spec.SchedulerName)
	}
	return found, nil
}

// updateSnapshot is what every scheduling cycle starts with. The snapshot's type is internal to some minors; it is
// inferred from the cache's own method.
func (c *cluster) updateSnapshot(profile framework.Framework) error {
	return update(c.context, c.sched.Cache.UpdateSnapshot, profile.SnapshotSharedLister())
}

func update[S any](ctx context.Context, updateSnapshot func(klog.Logger, S) error, lister any) error {
	return updateSnapshot(klog.FromContext(ctx), lister.(S))
}
