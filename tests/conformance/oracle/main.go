// Command oracle answers scheduling questions with the real kube-scheduler: it reads cases on standard input, one
// JSON object a line, and writes one line of decisions for each, in the order of the cases.
//
// Only the loop that takes pods from the queue is ours. The scheduler is made by its own constructor from the case's
// own configuration, on a client set that serves the case's objects, with its informers, cache and queue.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// maxLine bounds one case; a cluster of 1,000 nodes is some megabytes.
const maxLine = 256 << 20

func main() {
	parallel := flag.Int("parallel", 8, "how many cases are decided at the same time")
	gates := flag.String("feature-gates", "", "as kube-scheduler's flag, such as A=true,B=false")
	flag.Parse()
	silenceLogs()
	if *gates != "" {
		if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(2)
		}
	}
	loads, err := serveLoads()
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
	answers := os.Stdout
	os.Stdout, _ = os.OpenFile(os.DevNull, os.O_WRONLY, 0) // Peaks prints; standard output is for answers alone
	if err := answerAll(os.Stdin, answers, *parallel, loads); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
}

// silenceLogs keeps the scheduler's log off standard error, where only our own complaints belong.
func silenceLogs() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("alsologtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

// answerAll answers every line. The plugins of Trimaran keep their arguments in variables of the process, so a case
// that uses them runs alone; all others run beside each other.
func answerAll(in io.Reader, out io.Writer, parallel int, loads *loadServer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), maxLine)
	writer := bufio.NewWriter(out)
	var (
		alone   sync.RWMutex
		slots   = make(chan struct{}, parallel)
		pending = make(chan chan []byte, 4*parallel)
		written = make(chan error, 1)
	)
	go func() {
		var failed error
		for answer := range pending {
			line := <-answer
			if failed == nil {
				_, failed = writer.Write(append(line, '\n'))
				if failed == nil && len(pending) == 0 {
					failed = writer.Flush()
				}
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
		slots <- struct{}{}
		pending <- answer
		go func() {
			defer func() { <-slots }()
			answer <- answerLine(line, &alone, loads)
		}()
	}
	close(pending)
	err := <-written
	if err == nil {
		err = lines.Err()
	}
	if err == nil {
		err = writer.Flush()
	}
	return err
}

// answerLine is the answer to one line; what is wrong with the case is an answer too.
func answerLine(line []byte, alone *sync.RWMutex, loads *loadServer) (answer []byte) {
	var asked request
	defer func() {
		if failure := recover(); failure != nil {
			answer = encode(complaint{ID: asked.ID, Error: fmt.Sprint("panic: ", failure)})
		}
	}()
	if err := json.Unmarshal(line, &asked); err != nil {
		return encode(complaint{Error: err.Error()})
	}
	if len(asked.Watcher) > 0 || usesTrimaran(asked.Config) {
		alone.Lock()
		defer alone.Unlock()
		loads.serve(asked.Watcher)
		asked.Config = loads.redirect(asked.Config)
	} else {
		alone.RLock()
		defer alone.RUnlock()
	}
	decided, err := answerRequest(&asked)
	if err != nil {
		return encode(complaint{ID: asked.ID, Error: err.Error()})
	}
	return encode(decided)
}

func encode(value any) []byte {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return line
}
