// Command controlplane is a Kubernetes control plane in one program: it runs the part it is called as
// (a link named kube-apiserver runs kube-apiserver), or the part named by its first argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// parts are the programs this one can be, by the names their own projects give them.
var parts = map[string]func(){
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"kubectl":                 runKubectl,
	"load-watcher":            runLoadWatcher,
	"service-account-key":     runServiceAccountKey,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := parts[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, known := parts[name]
	if !known {
		names := make([]string, 0, len(parts))
		for part := range parts {
			names = append(names, part)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "controlplane: %q is none of its parts; say one of %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	run()
}
