package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runServiceAccountKey prints a new key with which an API server signs the tokens of service accounts.
func runServiceAccountKey() {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err == nil {
		err = pem.Encode(os.Stdout, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "service-account-key:", err)
		os.Exit(1)
	}
}
