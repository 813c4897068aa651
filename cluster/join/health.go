package join

import (
	"errors"
	"fmt"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// errBusy is why the server could not be asked how it is: it has one such moment when
// this machine is slow for a millisecond, and it says nothing of its store.
var errBusy = errors.New("embedded server: it has not answered yet")

// Health is nil, or what the embedded server itself says is wrong: after an error
// of writing it keeps that error, and answers no publisher any more.
func (n *Node) Health() error {
	if err := n.health(); !errors.Is(err, errBusy) {
		return err
	}
	return nil
}

func (n *Node) health() error {
	if !n.Embedded() {
		return nil
	}
	server := n.running()
	if server == nil || !server.Running() {
		return errStopped
	}
	var busy error
	for _, wrong := range server.Healthz(&natsserver.HealthzOptions{Details: true}).Errors {
		if wrong.Type != natsserver.HealthzErrorConn {
			return fmt.Errorf("embedded server: %s", wrong.Error)
		}
		busy = errBusy
	}
	return busy
}

// Store is how the replicas of this node are, of all streams that it keeps.
type Store struct {
	// Wrong is why they do not store, or lack what others have; nil: they are well.
	Wrong error
	// Failed is whether the server gave up, and goes on only when it is restarted.
	// Else it may catch up, or wait for others.
	Failed bool
	// Off is whether the server does not run, so that this node is not connected to the others
	// either.
	Off bool
	// Led is whether it knows a leader of the cluster: what is wrong is then not that
	// others are away.
	Led bool
	// Messages and Bytes are what all replicas here have: one that catches up moves.
	Messages, Bytes uint64
}

// gaveUp are parts of what the server says when it stores no more for as long as it runs.
var gaveUp = []string{"write error", "apply error", "meta layer is not running", "monitor goroutine not running"}

// Store asks the embedded server. known is false if it could not be asked just now, and
// with an existing NATS, whose servers see to themselves.
func (n *Node) Store() (s Store, known bool) {
	if !n.Embedded() {
		return s, false
	}
	if s.Wrong = n.health(); errors.Is(s.Wrong, errBusy) {
		return s, false
	}
	if s.Wrong == nil {
		return s, true
	}
	server := n.running()
	if s.Off = server == nil || !server.Running(); s.Off || !server.JetStreamEnabled() {
		s.Failed = true
		return s, true
	}
	for _, words := range gaveUp {
		s.Failed = s.Failed || strings.Contains(s.Wrong.Error(), words)
	}
	if info, err := server.Jsz(nil); err == nil {
		s.Messages, s.Bytes = info.Messages, info.Bytes
		s.Led = info.Meta != nil && info.Meta.Leader != ""
	}
	return s, true
}

// StreamsHere is how many streams the embedded server keeps a replica of. known is false if it could not be asked just now, and
// with an existing NATS.
func (n *Node) StreamsHere() (streams int, known bool) {
	server := n.running()
	if server == nil || !server.Running() || !server.JetStreamEnabled() {
		return 0, false
	}
	info, err := server.Jsz(nil)
	if err != nil {
		return 0, false
	}
	return info.Streams, true
}
