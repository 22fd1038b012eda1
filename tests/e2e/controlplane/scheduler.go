package main

import (
	"os"

	"k8s.io/component-base/cli"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // the arguments of the plugins below
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	"controlplane/podcapacity"
)

// runScheduler is kube-scheduler with the load-aware plugins registered beside its own.
func runScheduler() {
	os.Exit(cli.Run(scheduler.NewSchedulerCommand(
		scheduler.WithPlugin(targetloadpacking.Name, targetloadpacking.New),
		scheduler.WithPlugin(loadvariationriskbalancing.Name, loadvariationriskbalancing.New),
		scheduler.WithPlugin(lowriskovercommitment.Name, lowriskovercommitment.New),
		scheduler.WithPlugin(peaks.Name, peaks.New),
		scheduler.WithPlugin(podcapacity.Name, podcapacity.New),
	)))
}
