package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/paypal/load-watcher/pkg/watcher"
	"github.com/paypal/load-watcher/pkg/watcher/api"
)

// listenAddress names the environment variable that says where load-watcher answers here.
const listenAddress = "LISTEN_ADDRESS"

// runLoadWatcher serves the loads of nodes at LISTEN_ADDRESS/watcher, from the provider that its environment names.
func runLoadWatcher() {
	// It would listen on port 2020 of every interface as well. While we hold that port on loopback it cannot,
	// and only warns; if we cannot hold it either, another one does.
	if guard, err := net.Listen("tcp", "127.0.0.1:2020"); err == nil {
		defer guard.Close()
	}
	if _, err := api.NewLibraryClient(watcher.EnvMetricProviderOpts); err != nil {
		fmt.Fprintln(os.Stderr, "load-watcher:", err)
		os.Exit(1)
	}
	// Its handlers are registered with the default multiplexer.
	fmt.Fprintln(os.Stderr, "load-watcher:", http.ListenAndServe(os.Getenv(listenAddress), nil))
	os.Exit(1)
}
