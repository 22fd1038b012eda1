// Package networktraffic is the score plugin NetworkTraffic: the less a node receives, the higher its score.
package networktraffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Name is what a scheduler's configuration calls the plugin.
const Name = "NetworkTraffic"

const queryOfNode = `sum_over_time(node_network_receive_bytes_total{device="%s"}[%dm])` +
	` * on(instance) group_left(nodename) (node_uname_info{nodename="%s"})`

// Args are the plugin's arguments.
type Args struct {
	IP         string `json:"ip"`
	DeviceName string `json:"deviceName"`
	TimeRange  int    `json:"timeRange"`
}

// NetworkTraffic scores a node by what Prometheus says that it receives.
type NetworkTraffic struct {
	args Args
}

var _ framework.ScorePlugin = &NetworkTraffic{}

// New builds the plugin of its arguments.
func New(object runtime.Object, _ framework.Handle) (framework.Plugin, error) {
	plugin := &NetworkTraffic{}
	if err := frameworkruntime.DecodeInto(object, &plugin.args); err != nil {
		return nil, err
	}
	return plugin, nil
}

// Name of the plugin.
func (*NetworkTraffic) Name() string { return Name }

// Score is what the node receives, which NormalizeScore makes a score of.
func (n *NetworkTraffic) Score(ctx context.Context, _ *framework.CycleState, _ *v1.Pod, node string) (int64, *framework.Status) {
	traffic, err := n.traffic(ctx, node)
	if err != nil {
		return 0, framework.NewStatus(framework.Error, fmt.Sprintf("traffic of node %s: %s", node, err))
	}
	return traffic, nil
}

// ScoreExtensions is the plugin itself.
func (n *NetworkTraffic) ScoreExtensions() framework.ScoreExtensions { return n }

// NormalizeScore is 100 less the share of the busiest node's traffic.
func (n *NetworkTraffic) NormalizeScore(_ context.Context, _ *framework.CycleState, pod *v1.Pod, scores framework.NodeScoreList) *framework.Status {
	var most int64
	for _, node := range scores {
		if most < node.Score {
			most = node.Score
		}
	}
	if most == 0 {
		return framework.NewStatus(framework.Error, "no node receives anything")
	}
	for i, node := range scores {
		scores[i].Score = framework.MaxNodeScore - node.Score*framework.MaxNodeScore/most
	}
	klog.Infof("[NetworkTraffic] pod %v final score: %v", pod.Name, scores)
	return nil
}

func (n *NetworkTraffic) traffic(ctx context.Context, node string) (int64, error) {
	query := fmt.Sprintf(queryOfNode, n.args.DeviceName, n.args.TimeRange, node)
	address := n.args.IP + "/api/v1/query?" + url.Values{"query": {query}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]interface{} `json:"value"` // a moment, and the value as text
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%d values where there should be one", len(answer.Data.Result))
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	return int64(value), err
}
