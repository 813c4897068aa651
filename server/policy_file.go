package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/api"
)

// PolicyFile is what became of the file that policies come from, for GET /v1/limits and
// the metrics. Who watches the file tells it. It is safe for many goroutines.
type PolicyFile struct {
	path string

	mu       sync.Mutex // guards all below
	loaded   time.Time  // when the policies in use were read
	loads    uint64
	failures uint64
	trouble  string // why the newest file is not in use; "": it is
	since    time.Time
}

// NewPolicyFile is of a file that was read just now.
func NewPolicyFile(path string) *PolicyFile {
	return &PolicyFile{path: path, loaded: time.Now(), loads: 1}
}

// Reloaded notes that the file was read again; err says why its policies are not in use,
// nil that they are.
func (f *PolicyFile) Reloaded(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failures++
		f.trouble, f.since = err.Error(), time.Now()
		return
	}
	f.loads++
	f.loaded, f.trouble = time.Now(), ""
}

func (f *PolicyFile) state() *api.PolicyFileState {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &api.PolicyFileState{Path: f.path, LoadedAt: api.Time{Time: f.loaded.Truncate(time.Second)}, Error: f.trouble}
	if f.trouble != "" {
		s.ErrorAt = &api.Time{Time: f.since.Truncate(time.Second)}
	}
	return s
}

func (f *PolicyFile) register(registry *prometheus.Registry) {
	read := func(value func() float64) func() float64 {
		return func() float64 {
			f.mu.Lock()
			defer f.mu.Unlock()
			return value()
		}
	}
	const name, help = "weir_policy_reloads_total", "Times that the policy file was read, the start included, by what became of it."
	for result, n := range map[string]*uint64{"ok": &f.loads, "failed": &f.failures} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"result": result},
		}, read(func() float64 { return float64(*n) })))
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_policy_file_bad",
		Help: "1 while the newest policy file is not in use, because it is wrong or can't be read; the policies before it are.",
	}, read(func() float64 {
		if f.trouble != "" {
			return 1
		}
		return 0
	})))
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_policy_loaded_timestamp_seconds",
		Help: "When the policies in use were read.",
	}, read(func() float64 { return float64(f.loaded.Unix()) })))
}
