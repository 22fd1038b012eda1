package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the metrics of client-go
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func runEtcd() {
	etcdmain.Main(os.Args)
}

func runAPIServer() {
	os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
}

func runControllerManager() {
	os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
}
