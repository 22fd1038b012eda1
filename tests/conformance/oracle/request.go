package main

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// request is one line of standard input: a case of the conformance vectors, and what is asked about it.
type request struct {
	ID      string                       `json:"id"`
	Config  string                       `json:"config"`
	Objects map[string][]json.RawMessage `json:"objects"`
	Pending []json.RawMessage            `json:"pending"`
	Watcher json.RawMessage              `json:"watcher"`
	// Preemption also asks on which node the scheduler would preempt for a pod that fits nowhere.
	Preemption bool `json:"preemption"`
	// Landings asks for the scheduler's own searches instead of decisions.
	Landings *landingsAsked `json:"searches"`
}

// landingsAsked asks where the scheduler's own search places each pending pod, from every node it can start at.
type landingsAsked struct {
	// Workers is the parallelism of the search; 0 leaves it to the configuration.
	Workers int32 `json:"workers"`
	// Together has all workers advance at the same pace, as on as many cores: every filter waits a moment.
	Together bool `json:"together"`
	// Cores is on how many cores the workers run, as if each filter kept one busy for a moment; 0 is those of the
	// machine. It holds for the whole program, so such cases must be asked one at a time.
	Cores int `json:"cores"`
	// Starts are the start indices to try; none given are all of them.
	Starts []int `json:"starts"`
	// Repeats is how often each start is tried; 0 is once.
	Repeats int `json:"repeats"`
	// Sequence asks for all pending pods one after the other, each counted on its node for those after it.
	Sequence bool `json:"sequence"`
	// Timed also asks for the processor time of every search of a sequence. It is that of the whole program, so such
	// cases must be asked one at a time.
	Timed bool `json:"timed"`
}

// answer is the decision about each pending pod.
type answer struct {
	ID   string     `json:"id"`
	Pods []decision `json:"pods"`
}

// complaint is the answer to a case that cannot be decided at all.
type complaint struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// decision is what the scheduler makes of one pod. Error is a failed scheduling cycle, which is no rejection.
type decision struct {
	Pod       string          `json:"pod"`
	Error     string          `json:"error,omitempty"`
	PreFilter string          `json:"preFilter,omitempty"`
	Nodes     map[string]node `json:"nodes"`
	Chosen    string          `json:"chosen,omitempty"`
	Nominated *string         `json:"nominated,omitempty"`
}

type node struct {
	Filter string           `json:"filter,omitempty"`
	Scores map[string]int64 `json:"scores,omitempty"`
	Total  *int64           `json:"total,omitempty"`
}

// decodePods reads pods as the API server has stored them: cases hold objects with their defaults filled in. Only a
// namespace and an identity are made up where a case has none.
func decodePods(raw []json.RawMessage) ([]v1.Pod, error) {
	pods := make([]v1.Pod, len(raw))
	for i := range pods {
		if err := json.Unmarshal(raw[i], &pods[i]); err != nil {
			return nil, fmt.Errorf("pod: %w", err)
		}
		if pods[i].Namespace == "" {
			pods[i].Namespace = v1.NamespaceDefault
		}
		if err := identify(&pods[i]); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// objectsOf are the objects of a kind, whose plural is spelled in either case (persistentvolumes, persistentVolumes).
func (r *request) objectsOf(plural string) []json.RawMessage {
	for name, items := range r.Objects {
		if strings.EqualFold(name, plural) {
			return items
		}
	}
	return nil
}
