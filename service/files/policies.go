package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
)

// PolicyFile is the file that policies come from: where it is, and what became of it when
// it was read. It is safe for many goroutines. A nil one stands for no file.
type PolicyFile struct {
	path   string
	reload chan struct{} // holds one: a reload that has not begun is for all that ask

	mu  sync.Mutex // guards all below
	now PolicyFileStats
}

// PolicyFileStats are what is known of a PolicyFile.
type PolicyFileStats struct {
	Loaded   time.Time // when the policies in use were read
	Loads    uint64    // how often policies were, the start included
	Failures uint64    // how often those that were there could not be used
	Trouble  string    // why the newest file is not in use; "": it is
	Since    time.Time // of Trouble
}

// ReadPolicyFile reads the file for the first time. A node does not start with one that is
// wrong: it would let pass what should be limited. With the path "" both results are nil.
func ReadPolicyFile(path string) (*PolicyFile, *policy.Set, error) {
	if path == "" {
		return nil, nil, nil
	}
	set, err := policy.Load(path)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return nil, nil, fmt.Errorf("the policy file is wrong:\n%w\ncorrect it ('weir limits check' reads it), or start without --policy", faults)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--policy: %w", err)
	}
	return &PolicyFile{path: path, reload: make(chan struct{}, 1), now: PolicyFileStats{Loaded: time.Now(), Loads: 1}}, set, nil
}

// Reload asks for the file to be read again, soon.
func (f *PolicyFile) Reload() {
	if f == nil {
		return
	}
	select {
	case f.reload <- struct{}{}:
	default: // it is about to be read
	}
}

// Watch puts the file's policies in place of those of live whenever it changes, and at
// Reload, on a goroutine of its own until ctx ends. ended returns when that has.
func (f *PolicyFile) Watch(ctx context.Context, live *admit.Live, log *slog.Logger) (ended func()) {
	var watching sync.WaitGroup
	if f != nil {
		f.logUse(live, log)
		watching.Go(func() {
			live.Watch(ctx, f.path, f.reload, func(err error) {
				f.note(err)
				f.logReload(live, log, err)
			})
		})
	}
	return watching.Wait
}

// note notes that the file was read again; err says why its policies are not in use,
// nil that they are.
func (f *PolicyFile) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.now.Failures++
		f.now.Trouble, f.now.Since = err.Error(), time.Now()
		return
	}
	f.now.Loads++
	f.now.Loaded, f.now.Trouble = time.Now(), ""
}

func (f *PolicyFile) logUse(live *admit.Live, log *slog.Logger) {
	set := live.Set()
	log.Info("policies are in use", "file", f.path, "policies", set.Len()+len(set.Concurrencies()))
}

// logReload tells of a file that was read again: each fault in a line of its own.
func (f *PolicyFile) logReload(live *admit.Live, log *slog.Logger, err error) {
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			log.Error("policy file", "problem", line)
		}
		return
	}
	f.logUse(live, log)
	for _, d := range live.Dropped() {
		log.Warn("a policy that is in use is gone from the file: nothing limits its keys by it any more; put it back if that was not meant",
			"file", f.path, "policy", d.Name, "keys_in_use", d.KeysInUse)
	}
}

// Stats are what is known of the file now.
func (f *PolicyFile) Stats() PolicyFileStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Alarms say that the limits in use are not those that were written last.
func (f *PolicyFile) Alarms() []api.Alarm {
	if f == nil || f.Stats().Trouble == "" {
		return nil
	}
	return []api.Alarm{{Code: "policy_file_bad", Message: "the newest policy file is not in use, because it is wrong or can't be read; the policies before it are: weir limits and the server's log say why"}}
}

// State is Stats as an answer has it; nil: there is no file.
func (f *PolicyFile) State() *api.PolicyFileState {
	if f == nil {
		return nil
	}
	now := f.Stats()
	s := &api.PolicyFileState{Path: f.path, LoadedAt: api.Time{Time: now.Loaded.Truncate(time.Second)}, Error: now.Trouble}
	if now.Trouble != "" {
		s.ErrorAt = &api.Time{Time: now.Since.Truncate(time.Second)}
	}
	return s
}
