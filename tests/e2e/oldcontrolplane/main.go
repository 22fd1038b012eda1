// Command oldcontrolplane is what an old minor has of its own, in one program: it runs the part it is called as.
// etcd and the clients are those of today's control plane beside it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the arguments of the plugin below
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	"oldcontrolplane/networktraffic"
	"oldcontrolplane/podcapacity"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = newSchedulerCommand()
	default:
		fmt.Fprintf(os.Stderr, "oldcontrolplane: %q is none of its parts\n", name)
		os.Exit(2)
	}
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}

// newSchedulerCommand is kube-scheduler with the plugins of articles registered beside its own.
func newSchedulerCommand() *cobra.Command {
	return scheduler.NewSchedulerCommand(
		scheduler.WithPlugin(podcapacity.Name, podcapacity.New),
		scheduler.WithPlugin(networktraffic.Name, networktraffic.New),
		scheduler.WithPlugin(targetloadpacking.Name, targetloadpacking.New),
	)
}
