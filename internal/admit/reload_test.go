package admit

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
)

// A limit of 10 per hour is 10 per hour, whatever is loaded meanwhile.
func TestReloadGivesNoFreshAllowance(t *testing.T) {
	reloadUnderLoad(t, 10, 10, 10)
}

// reloadUnderLoad loads the same file and files with other algorithms, in turn with limits
// of ns per hour, while requests run.
func reloadUnderLoad(t *testing.T, ns ...int) {
	t.Helper()
	const file = "limits:\n  - {name: l, keys: \"k:{x}:*\", by: \"k:{x}\", limit: %d, per: 1h, burst: %d, algorithm: %s, overrides: [{key: \"k:a\", limit: 10}]}\n"
	r := newRig(t, fmt.Sprintf(file, 10, 10, "window"))
	var admitted [2]atomic.Int64
	var asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			var d Decision
			for i := worker; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := i % 2
				if err := r.Take([]Request{{Key: []string{"k:a:x", "k:b:x"}[key], N: 1}}, &d); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if d.Allowed {
					admitted[key].Add(1)
				}
			}
		})
	}
	for i := range 100 {
		set := r.Set()
		if i%2 == 1 {
			n := ns[i/2%len(ns)]
			set = mustParse(t, fmt.Sprintf(file, n, n, []string{"window", "gcra", "fixed"}[i/2%3]))
		}
		before := asked.Load()
		if err := r.Replace(set); err != nil {
			t.Fatal(err)
		}
		for asked.Load() < before+20 && !t.Failed() { // requests run between any two loads
			runtime.Gosched()
		}
	}
	close(stop)
	wg.Wait()
	for key := range admitted {
		if n := admitted[key].Load(); n != 10 {
			t.Errorf("key %d: %d admitted, want 10", key, n)
		}
	}
}

func TestReplaceThatFailsChangesNothing(t *testing.T) {
	r := newRig(t, good)
	before := r.Set()
	var failed error
	for i := 0; failed == nil && i < 20; i++ { // until the engine knows its most names
		var b strings.Builder
		b.WriteString("limits:\n")
		for n := range 1000 {
			fmt.Fprintf(&b, "  - {name: n%d.%d, keys: \"a\", limit: 1, per: 1s}\n", i, n)
		}
		next := mustParse(t, b.String())
		if failed = r.Replace(next); failed == nil {
			before = next
		}
	}
	if e, ok := errors.AsType[*engine.Error](failed); !ok || e.Code != api.CodeOverloaded {
		t.Fatalf("%v", failed)
	}
	if r.Set() != before {
		t.Error("the Set in use has changed")
	}
}
