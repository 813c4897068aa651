package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// waiting tells now and then what Open waits for.
type waiting struct {
	node  *Node
	what  string
	since time.Time
	said  time.Time // in the log
	told  time.Time // to Config.Waiting
}

func (n *Node) waiting(what string) *waiting {
	now := time.Now()
	return &waiting{node: n, what: what, since: now, said: now}
}

// again returns nil when it is time for another attempt after err, or why there
// is none.
func (w *waiting) again(ctx context.Context, pause time.Duration, err error) error {
	if tell := w.node.cfg.Waiting; tell != nil && time.Since(w.told) >= tellState {
		w.told = time.Now()
		tell(w.what + ": " + w.node.state())
	}
	if time.Since(w.said) >= sayState {
		w.said = time.Now()
		w.node.cfg.Logger.Warn(w.what, "for", time.Since(w.since).Round(time.Second), "state", w.node.state(), "error", err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: %s: %w", w.what, w.node.state(), errors.Join(context.Cause(ctx), err))
	case <-timer.C:
		return nil
	}
}

// state is who is here, in words.
func (n *Node) state() string {
	switch {
	case !n.Embedded():
		return "at " + n.cfg.redactedURLs()
	case n.cfg.Cluster == "":
		return "one node alone"
	}
	here := []string{n.cfg.Node}
	for _, route := range n.routes() {
		here = append(here, route.Node)
	}
	all := n.Size()
	s := fmt.Sprintf("%d of %d nodes are running (%s), %d are needed, and all at the very first start", len(here), all, strings.Join(here, " "), all/2+1)
	if len(here) == 1 {
		s += fmt.Sprintf("; check that %s can be reached, and the logs there for a refusal", strings.Join(slices.DeleteFunc(slices.Clone(n.cfg.Peers), func(p string) bool { return p == n.cfg.Addr }), " "))
	}
	return s
}
