package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// lists are the kinds that the descheduler reads, by their plural.
var lists = map[string]func() runtime.Object{
	"nodes":                  func() runtime.Object { return &v1.NodeList{} },
	"pods":                   func() runtime.Object { return &v1.PodList{} },
	"namespaces":             func() runtime.Object { return &v1.NamespaceList{} },
	"persistentvolumeclaims": func() runtime.Object { return &v1.PersistentVolumeClaimList{} },
	"poddisruptionbudgets":   func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
	"priorityclasses":        func() runtime.Object { return &schedulingv1.PriorityClassList{} },
}

// newClient serves the objects of a case as an API server stores them, their times moved as if it were asked now: the
// descheduler takes ages by the clock.
func newClient(asked *request) (*fake.Clientset, error) {
	shift := time.Duration(0)
	if !asked.Now.IsZero() {
		shift = time.Since(asked.Now)
	}
	var objects []runtime.Object
	for name, raw := range asked.Objects {
		make, known := lists[strings.ToLower(name)]
		if !known {
			continue
		}
		list := make()
		if err := json.Unmarshal(encode(map[string]any{"items": raw}), list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			objects = append(objects, item)
			return complete(item, shift)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return fake.NewSimpleClientset(objects...), nil
}

// complete gives an object what every stored object has, and moves its times.
func complete(item runtime.Object, shift time.Duration) error {
	object, err := meta.Accessor(item)
	if err != nil {
		return err
	}
	if object.GetUID() == "" {
		object.SetUID(types.UID(object.GetNamespace() + "/" + object.GetName()))
	}
	object.SetCreationTimestamp(moved(object.GetCreationTimestamp(), shift))
	pod, isPod := item.(*v1.Pod)
	if !isPod {
		return nil
	}
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.Status.StartTime != nil {
		started := moved(*pod.Status.StartTime, shift)
		pod.Status.StartTime = &started
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		condition.LastTransitionTime = moved(condition.LastTransitionTime, shift)
	}
	return nil
}

func moved(moment metav1.Time, shift time.Duration) metav1.Time {
	if moment.IsZero() {
		return moment
	}
	return metav1.NewTime(moment.Add(shift))
}
