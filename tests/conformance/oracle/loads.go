package main

import (
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"sync"
)

// loadServer is load-watcher for the plugins of Trimaran: GET …/watcher answers with the document of the case.
type loadServer struct {
	address  string
	lock     sync.Mutex
	document []byte
}

var (
	trimaran       = regexp.MustCompile(`\b(TargetLoadPacking|LoadVariationRiskBalancing|LowRiskOverCommitment|Peaks)\b`)
	watcherAddress = regexp.MustCompile(`(?i)(watcherAddress"?\s*:\s*["']?)https?://[^/\s"']+`)
)

func usesTrimaran(config string) bool {
	return trimaran.MatchString(config)
}

func serveLoads() (*loadServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &loadServer{address: "http://" + listener.Addr().String()}
	go func() { _ = http.Serve(listener, server) }()
	return server, nil
}

// redirect has the plugins of this configuration ask us, whatever address it names.
func (s *loadServer) redirect(config string) string {
	return watcherAddress.ReplaceAllString(config, "${1}"+s.address)
}

// serve answers with this document from now on. Its window is moved to where no pod counts as recently bound: the
// running pods of a case reach the plugins' cache of recent bindings only now, as after a restart of the scheduler.
func (s *loadServer) serve(document json.RawMessage) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.document = nil
	var fields map[string]any
	if len(document) == 0 || json.Unmarshal(document, &fields) != nil {
		s.document = document
		return
	}
	if window, ok := fields["window"].(map[string]any); ok {
		window["start"], window["end"] = int64(1)<<40, int64(1)<<40
	}
	s.document = encode(fields)
}

func (s *loadServer) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.document) == 0 {
		response.WriteHeader(http.StatusInternalServerError)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	_, _ = response.Write(s.document)
}
