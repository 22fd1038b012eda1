// Package recorded prints what the descheduler's own unit tests set up, a line each. It is added to a copy of the
// descheduler's source, whose constructors call it.
package recorded

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Made prints that a plugin is made with these arguments; of the evictor, also the objects of its client.
func Made(plugin string, arguments any, client kubernetes.Interface) {
	if plugin != "defaultevictor" {
		write("plugin", map[string]any{"package": plugin, "args": arguments})
		return
	}
	ctx, all := context.Background(), metav1.ListOptions{}
	objects := map[string]any{}
	if found, err := client.CoreV1().Nodes().List(ctx, all); err == nil {
		objects["nodes"] = found.Items
	}
	if found, err := client.CoreV1().Pods("").List(ctx, all); err == nil {
		objects["pods"] = found.Items
	}
	if found, err := client.CoreV1().Namespaces().List(ctx, all); err == nil {
		objects["namespaces"] = found.Items
	}
	if found, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, all); err == nil {
		objects["persistentvolumeclaims"] = found.Items
	}
	if found, err := client.PolicyV1().PodDisruptionBudgets("").List(ctx, all); err == nil {
		objects["poddisruptionbudgets"] = found.Items
	}
	write("evictor", map[string]any{"args": arguments, "objects": objects})
}

// Limits prints the limits of a run.
func Limits(node, namespace, total *uint) {
	write("limits", map[string]any{
		"maxNoOfPodsToEvictPerNode": node, "maxNoOfPodsToEvictPerNamespace": namespace, "maxNoOfPodsToEvictTotal": total,
	})
}

// Evicted prints how many pods were evicted when a test asks for it.
func Evicted(count uint) {
	write("evicted", count)
}

func write(kind string, value any) {
	line, err := json.Marshal(map[string]any{kind: value})
	if err != nil {
		line, _ = json.Marshal(map[string]string{"problem": err.Error()})
	}
	fmt.Printf("RECORDED %s\n", line)
}
