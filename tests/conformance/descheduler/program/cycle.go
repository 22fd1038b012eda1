package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/descheduler/cmd/descheduler/app/options"
	"sigs.k8s.io/descheduler/pkg/descheduler"
	"sigs.k8s.io/descheduler/pkg/features"
	"sigs.k8s.io/descheduler/pkg/framework/pluginregistry"
)

// request is one line of standard input: a cluster at a moment, and a DeschedulerPolicy.
type request struct {
	ID      string                       `json:"id"`
	Now     time.Time                    `json:"now"`
	Objects map[string][]json.RawMessage `json:"objects"`
	Policy  json.RawMessage              `json:"policy"`
}

// eviction is a request to evict a pod. A pod that several plugins choose is there for each of them.
type eviction struct {
	Pod     string `json:"pod"`
	Profile string `json:"profile"`
	Plugin  string `json:"plugin"`
}

// decided is what one cycle evicts, in the order of its requests.
type decided struct {
	ID        string     `json:"id"`
	Evictions []eviction `json:"evictions"`
}

// complaint is the answer to a case that no cycle can be run for.
type complaint struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// runCycle is what one descheduling cycle asks to evict. Evicted pods stay as they are, as in the descheduler's own
// tests: what the plugins see does not depend on when an informer hears of an eviction.
func runCycle(asked *request) ([]eviction, error) {
	client, err := newClient(asked)
	if err != nil {
		return nil, err
	}
	var (
		guard     sync.Mutex
		evictions = []eviction{}
	)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		wanted := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		guard.Lock()
		defer guard.Unlock()
		evictions = append(evictions, evictionOf(wanted))
		return true, nil, nil
	})
	file, err := policyFile(asked.Policy)
	if err != nil {
		return nil, err
	}
	defer os.Remove(file)
	policy, err := descheduler.LoadPolicyConfig(file, client, pluginregistry.PluginRegistry)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	server, err := options.NewDeschedulerServer()
	if err != nil {
		return nil, err
	}
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		features.EvictionsInBackground: {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		return nil, err
	}
	server.Client, server.EventClient, server.DisableMetrics, server.DefaultFeatureGates = client, client, true, gates
	err = descheduler.RunDeschedulerStrategies(context.Background(), server, policy, "policy/v1")
	guard.Lock()
	defer guard.Unlock()
	return evictions, err
}

// evictionOf reads who asked: the annotation says "triggered by PROFILE/PLUGIN: reason".
func evictionOf(wanted *policyv1.Eviction) eviction {
	by := strings.TrimPrefix(wanted.Annotations["reason"], "triggered by ")
	by, _, _ = strings.Cut(by, ":")
	at := strings.LastIndex(by, "/")
	return eviction{Pod: wanted.Namespace + "/" + wanted.Name, Profile: by[:max(at, 0)], Plugin: by[at+1:]}
}

// policyFile holds the policy, for the descheduler's own decoder reads files.
func policyFile(policy []byte) (string, error) {
	file, err := os.CreateTemp("", "policy-*.json")
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.Write(policy)
	return file.Name(), err
}
