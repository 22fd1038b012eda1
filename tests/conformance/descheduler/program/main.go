// Command descheduler-oracle answers what the real descheduler would evict: it reads cases on standard input, one JSON
// object a line, and writes one line for each, in the order of the cases.
//
// Only the client is ours. One descheduling cycle is run by the descheduler's own entry point, with its own decoding,
// defaults and validation of the policy, on a client set that serves the objects of the case.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	"sigs.k8s.io/descheduler/pkg/descheduler"
)

// maxLine bounds one case; a cluster of 1,000 nodes is some megabytes.
const maxLine = 256 << 20

func main() {
	parallel := flag.Int("parallel", 8, "how many cases are answered at the same time")
	flag.Parse()
	silenceLogs()
	descheduler.SetupPlugins()
	if err := answerAll(os.Stdin, os.Stdout, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "descheduler-oracle:", err)
		os.Exit(2)
	}
}

// silenceLogs keeps the descheduler's log off standard error, where only our own complaints belong.
func silenceLogs() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

// answerAll answers every line, some of them beside each other: a cycle mostly waits for its informers.
func answerAll(in io.Reader, out io.Writer, parallel int) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	pending := make(chan chan []byte, parallel)
	written := make(chan error, 1)
	go func() {
		var failed error
		for answer := range pending {
			line := <-answer
			if failed == nil {
				_, failed = out.Write(append(line, '\n'))
			}
		}
		written <- failed
	}()
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		line := append([]byte(nil), lines.Bytes()...)
		answer := make(chan []byte, 1)
		pending <- answer
		go func() { answer <- answerLine(line) }()
	}
	close(pending)
	if err := <-written; err != nil {
		return err
	}
	return lines.Err()
}

// answerLine is the answer to one line; what is wrong with the case is an answer too.
func answerLine(line []byte) (answer []byte) {
	var asked request
	defer func() {
		if failure := recover(); failure != nil {
			answer = encode(complaint{ID: asked.ID, Error: fmt.Sprint("panic: ", failure)})
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return encode(complaint{Error: err.Error()})
	}
	evictions, err := runCycle(&asked)
	if err != nil {
		return encode(complaint{ID: asked.ID, Error: err.Error()})
	}
	return encode(decided{ID: asked.ID, Evictions: evictions})
}

func encode(value any) []byte {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return line
}
