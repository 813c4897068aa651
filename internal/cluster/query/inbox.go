package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// inbox takes the answers of other nodes, each in one part or several. A request of NATS takes one message only.
type inbox struct {
	conn   *nats.Conn
	prefix string // of the reply subjects
	sub    *nats.Subscription
	last   atomic.Uint64

	mu      sync.Mutex
	waiting map[string]*reply // by the end of its subject; one for each request that is being made
}

// reply is the part of an answer that has arrived.
type reply struct {
	next uint64 // the part that comes
	text []byte
	done chan error // one value
}

var errNoSubscriber = errors.New("no subscriber")

// maxArriving and maxArrivingBytes bound the messages that wait for arrive.
const maxArriving, maxArrivingBytes = 16 << 10, 256 << 20

func newInbox(conn *nats.Conn) (*inbox, error) {
	in := &inbox{conn: conn, prefix: conn.NewInbox() + ".", waiting: map[string]*reply{}}
	sub, err := conn.Subscribe(in.prefix+"*", in.arrive)
	if err == nil {
		err = sub.SetPendingLimits(maxArriving, maxArrivingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for answers: %w", err)
	}
	in.sub = sub
	return in, nil
}

// request sends a request, and returns the text of its answer, all parts.
func (in *inbox) request(ctx context.Context, to string, data []byte) ([]byte, error) {
	id, rep := strconv.FormatUint(in.last.Add(1), 36), &reply{done: make(chan error, 1)}
	in.mu.Lock()
	in.waiting[id] = rep
	in.mu.Unlock()
	defer in.forget(id)
	if err := in.conn.PublishRequest(to, in.prefix+id, data); err != nil {
		return nil, err
	}
	select {
	case err := <-rep.done:
		return rep.text, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (in *inbox) forget(id string) *reply {
	in.mu.Lock()
	defer in.mu.Unlock()
	rep := in.waiting[id]
	delete(in.waiting, id)
	return rep
}

// arrive takes one part. It drops a part that no request waits for.
func (in *inbox) arrive(msg *nats.Msg) {
	id := strings.TrimPrefix(msg.Subject, in.prefix)
	in.mu.Lock()
	rep := in.waiting[id]
	in.mu.Unlock()
	if rep == nil {
		return
	}
	over, err := rep.add(msg)
	if over && in.forget(id) != nil {
		rep.done <- err
	}
}

func (rep *reply) add(msg *nats.Msg) (over bool, err error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return true, errNoSubscriber
	}
	p, err := readPart(msg.Data)
	switch {
	case err != nil:
		return true, err
	case p.part != rep.next || len(rep.text)+len(p.bytes) > maxAnswers:
		return true, errWire
	}
	rep.next++
	rep.text = append(rep.text, p.bytes...)
	return p.last, nil
}

// close takes no more answers. It fails only if the connection is closed.
func (in *inbox) close() { _ = in.sub.Unsubscribe() }
