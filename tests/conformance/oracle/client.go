package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// lists are the kinds that a scheduler reads, by their plural; those that minors read in different versions are added
// by the file of each.
var lists = map[string]func() runtime.Object{
	"nodes":                  func() runtime.Object { return &v1.NodeList{} },
	"namespaces":             func() runtime.Object { return &v1.NamespaceList{} },
	"services":               func() runtime.Object { return &v1.ServiceList{} },
	"replicationcontrollers": func() runtime.Object { return &v1.ReplicationControllerList{} },
	"replicasets":            func() runtime.Object { return &appsv1.ReplicaSetList{} },
	"statefulsets":           func() runtime.Object { return &appsv1.StatefulSetList{} },
	"persistentvolumes":      func() runtime.Object { return &v1.PersistentVolumeList{} },
	"persistentvolumeclaims": func() runtime.Object { return &v1.PersistentVolumeClaimList{} },
	"storageclasses":         func() runtime.Object { return &storagev1.StorageClassList{} },
	"csinodes":               func() runtime.Object { return &storagev1.CSINodeList{} },
	"csidrivers":             func() runtime.Object { return &storagev1.CSIDriverList{} },
	"volumeattachments":      func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
}

// newClient serves the objects of a case, and these pods. Lists are answered in the order of the case: nodes register
// in this order, and the scheduler's cache depends on it (which node first names an image, how zones alternate).
func newClient(asked *request, pods []v1.Pod) (*fake.Clientset, error) {
	client := fake.NewSimpleClientset()
	serve := func(plural string, list runtime.Object) {
		client.PrependReactor("list", plural, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, list.DeepCopyObject(), nil
		})
	}
	for name, raw := range asked.Objects {
		plural := strings.ToLower(name)
		make, known := lists[plural]
		if !known {
			continue // pods; and kinds that no scheduler reads
		}
		list := make()
		if err := json.Unmarshal(encode(map[string]any{"items": raw}), list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := meta.EachListItem(list, identify); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		serve(plural, list)
	}
	serve("pods", &v1.PodList{Items: slices.DeleteFunc(pods, finished)})
	// Preemption evicts and clears nominations; whether it would is all we ask, so nothing happens to the pods.
	for _, verb := range []string{"delete", "patch"} {
		client.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &v1.Pod{}, nil
		})
	}
	return client, nil
}

// identify gives an object what every stored object has, where the case leaves it out.
func identify(item runtime.Object) error {
	object, err := meta.Accessor(item)
	if err != nil {
		return err
	}
	if object.GetUID() == "" {
		object.SetUID(types.UID(object.GetNamespace() + "/" + object.GetName()))
	}
	if object.GetResourceVersion() == "" {
		object.SetResourceVersion("1")
	}
	return nil
}

// finished is what the field selector of the scheduler's pod informer leaves out; a fake client set knows none.
func finished(pod v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
