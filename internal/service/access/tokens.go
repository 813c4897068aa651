package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
)

// A service follows two files while it runs: who may do what (Tokens), and which limits requests have (PolicyFile).
//
// Invariants: a node does not start with a file that is wrong. One that becomes wrong later leaves in use what was read
// before, and raises an alarm until it is right again.

// Tokens is the file that says who may do what, and the identities in use. It is safe for
// many goroutines. A nil one locks nothing.
type Tokens struct {
	path   string
	live   *auth.Live
	reload chan struct{} // holds one: a reload that has not begun is for all that ask

	mu      sync.Mutex // guards trouble
	trouble string     // why the newest file is not in use; "": it is
}

// ReadTokens reads the file for the first time. A node does not start with one that is wrong.
// With the path "" the result is nil.
func ReadTokens(path string) (*Tokens, error) {
	if path == "" {
		return nil, nil
	}
	set, err := auth.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the tokens file can't be used: %w\n'weir token create' makes one", err)
	case err != nil:
		return nil, fmt.Errorf("the tokens file can't be used:\n%w", err)
	}
	return &Tokens{path: path, live: auth.NewLive(set), reload: make(chan struct{}, 1)}, nil
}

// NewTokens locks a service with a Set that no file is followed for: for tests, and for programs
// that keep identities elsewhere.
func NewTokens(set *auth.Set) *Tokens {
	return &Tokens{live: auth.NewLive(set), reload: make(chan struct{}, 1)}
}

// Live is the identities in use. t must not be nil.
func (t *Tokens) Live() *auth.Live { return t.live }

// Reload asks for the file to be read again, soon.
func (t *Tokens) Reload() {
	if t == nil {
		return
	}
	select {
	case t.reload <- struct{}{}:
	default: // it is about to be read
	}
}

// Watch follows the file on a goroutine of its own until ctx ends. ended returns when that
// has.
func (t *Tokens) Watch(ctx context.Context, log *slog.Logger) (ended func()) {
	var watching sync.WaitGroup
	if t != nil && t.path != "" {
		log.Info("tokens are in use", "file", t.path, "identities", len(t.live.Set().Identities()))
		watching.Go(func() { t.live.Watch(ctx, t.path, t.reload, func(err error) { t.note(err, log) }) })
	}
	return watching.Wait
}

func (t *Tokens) note(err error, log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.trouble = ""
		log.Info("tokens are in use", "file", t.path, "identities", len(t.live.Set().Identities()))
		return
	}
	t.trouble = err.Error()
	for line := range strings.SplitSeq(t.trouble, "\n") {
		log.Error("tokens file", "problem", line)
	}
}

// Alarms say that tokens that were revoked may still be good.
func (t *Tokens) Alarms() []api.Alarm {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trouble == "" {
		return nil
	}
	return []api.Alarm{{Code: "tokens_file_bad", Message: "the newest tokens file is not in use, because it is wrong or can't be read; the tokens before it are, those revoked since included: the server's log says why"}}
}

// expiringSoon is how long before its end a token is worth a warning in metrics.
const expiringSoon = 7 * 24 * time.Hour

// TokenStats are figures of the tokens in use, for metrics.
type TokenStats struct {
	Identities, Tokens, Expired, ExpiringSoon int
	FileBad                                   bool
}

// Stats are those figures now.
func (t *Tokens) Stats() (st TokenStats) {
	st.FileBad = len(t.Alarms()) > 0
	set, now := t.live.Set(), time.Now()
	for _, i := range set.Identities() {
		st.Identities++
		for _, token := range set.Tokens(i.Name) {
			st.Tokens++
			switch {
			case token.Expired(now):
				st.Expired++
			case token.Expired(now.Add(expiringSoon)):
				st.ExpiringSoon++
			}
		}
	}
	return st
}
