package service_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// listener is the least of one: its requests are texts of hits, key and number in turn.
type listener struct {
	*testing.T
	service *service.Service
	caller  access.Caller
}

func newListener(t *testing.T, b service.Backend, cfg service.Config) *listener {
	t.Helper()
	if b.Engine == nil {
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		b.Engine = e
	}
	s, err := service.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &listener{t, s, access.CallerAt("192.0.2.1:1234")}
}

// hit takes a request as docs/extend.md says.
func (d *listener) hit(key, text string, durable bool) (t ingest.Tally, repeated bool, err error) {
	if err := d.service.Ingest(d.caller, &t); err != nil {
		return t, false, err
	}
	if durable {
		if err := d.service.EnterDurable(d.caller); err != nil {
			return t, false, err
		}
		defer d.service.LeaveDurable(d.caller)
	}
	if err := d.service.Pools.Hits.Enter(d.caller, 1); err != nil {
		return t, false, err
	}
	defer d.service.Pools.Hits.Leave(d.caller, 1)
	words := strings.Fields(text)
	if err := d.service.CheckBatch(len(words) / 2); err != nil {
		return t, false, err
	}
	count := func() error {
		for ; len(words) > 1; words = words[2:] {
			t.Line++
			if t.Refuses() {
				continue
			}
			n, rejected := request.ParseCount(words[1])
			if rejected == nil {
				rejected = request.CheckHitKey(words[0])
			}
			if rejected != nil {
				t.Reject(rejected)
				continue
			}
			if err := d.service.Hit(&t, d.service.Now(), words[0], n); err != nil {
				return d.service.Verdict(&t, err)
			}
		}
		if len(words) == 1 {
			return d.service.Verdict(&t, &api.Error{Code: api.CodeBodyBroken, Message: "a key without a number"})
		}
		return d.service.Verdict(&t, nil)
	}
	if key == "" {
		err = count()
	} else {
		repeated, err = d.service.Once(d.Context(), d.caller, key, ingest.Fingerprint('t', []byte(text)), &t, count)
	}
	if durable && err == nil {
		err = d.service.Sync(d.Context(), &t)
	}
	return t, repeated, err
}

func (d *listener) wantCode(err error, code api.Code) *api.Error {
	d.Helper()
	e := request.As(err)
	if err == nil || e.Code != code {
		d.Errorf("got %v (%s), want %s", err, e.Code, code)
	}
	return e
}

func (d *listener) wantCount(key string, want uint64) {
	d.Helper()
	answers, err := d.service.Count(d.Context(), d.caller, queries.CountQuery{Keys: []string{key}})
	if err != nil || answers[0].Estimate != want {
		d.Errorf("count of %s: %+v, %v, want %d", key, answers, err, want)
	}
}

// A listener has the verdict on its hits from the service.
func TestVerdict(t *testing.T) {
	d := newListener(t, service.Backend{}, service.Config{MaxBatch: 3})
	tally, _, err := d.hit("", "a 2 b x limit:c 1", false)
	if err != nil || tally.Counted != 2 || tally.RejectedLines != 2 || tally.Rejected[0].Line != 2 || tally.Rejected[1].Code != api.CodeReservedKey {
		t.Errorf("%+v, %v", tally, err)
	}
	_, _, err = d.hit("", "b x c y", false)
	if e := d.wantCode(err, api.CodeNothingCounted); e.Hits == nil || e.Hits.RejectedLines != 2 || !strings.Contains(e.Message, "line 1: n must be") {
		t.Errorf("%+v", e)
	}
	_, _, err = d.hit("", "a 1 b", false)
	if e := d.wantCode(err, api.CodeBodyBroken); e.Hits == nil || e.Hits.Counted != 1 || e.Message != "a key without a number; the 1 hits before that were counted" {
		t.Errorf("%+v", e)
	}
	_, _, err = d.hit("", "", false)
	if e := d.wantCode(err, api.CodeEmptyBody); e.Hits != nil {
		t.Errorf("%+v", e)
	}
	_, _, err = d.hit("", "a 1 a 1 a 1 a 1", false)
	d.wantCode(err, api.CodeTooManyLines)
	d.wantCount("a", 3)
	if r := d.service.Requests(); r.Rejected != 4 || r.Overloaded != 0 {
		t.Errorf("%+v", r)
	}
}

// A repeated request counts once at any listener, and has the first answer, also that of a failure.
func TestOnce(t *testing.T) {
	d := newListener(t, service.Backend{}, service.Config{})
	for i := range 3 {
		tally, repeated, err := d.hit("k1", "a 2 b x", false)
		if err != nil || repeated != (i > 0) || tally.Counted != 2 || len(tally.Rejected) != 1 {
			t.Errorf("time %d: %+v, %v, %v", i, tally, repeated, err)
		}
		_, repeated, err = d.hit("k2", "b 1 c", false)
		if e := d.wantCode(err, api.CodeBodyBroken); repeated != (i > 0) || e.Hits == nil || e.Hits.Counted != 1 {
			t.Errorf("time %d: %v, %+v", i, repeated, e)
		}
	}
	_, _, err := d.hit("k1", "a 3", false)
	d.wantCode(err, api.CodeKeyReused)
	d.wantCount("a", 2)
	d.wantCount("b", 1)
	if r := d.service.Requests(); r.Replayed != 4 {
		t.Errorf("%+v", r)
	}
}

// An ephemeral server says so to all that wants something kept.
func TestEphemeral(t *testing.T) {
	d := newListener(t, service.Backend{}, service.Config{})
	_, _, err := d.hit("", "a 1", true)
	d.wantCode(err, api.CodeEphemeral)
	d.wantCount("a", 0)
	d.wantCode(d.service.Backup(t.Context(), d.caller, io.Discard), api.CodeEphemeral)
	_, err = d.service.Restore(t.Context(), d.caller, strings.NewReader(""), api.Merge)
	d.wantCode(err, api.CodeEphemeral)
	_, err = d.service.Restore(t.Context(), d.caller, strings.NewReader(""), "both")
	d.wantCode(err, api.CodeInvalidParameter)
	if st, err := d.service.Stats(d.caller); err != nil || st.Durable || st.Journal != nil {
		t.Errorf("%+v, %v", st, err)
	}
	if ready, refusing := d.service.Ready(); refusing != nil || ready.Status != "ok" || ready.Freshness != nil {
		t.Errorf("%+v, %+v", ready, refusing)
	}
	if nodes, err := d.service.Nodes(t.Context(), d.caller); err != nil || nodes.Mode != "ephemeral" || nodes.Size != 0 {
		t.Errorf("%+v, %v", nodes, err)
	}
	_, err = d.service.Remove(t.Context(), d.caller, "n2")
	d.wantCode(err, api.CodeNoCluster)
}

// slowJournal waits with its backup for release, and learns about restores what err says.
type slowJournal struct {
	ingest.Journal
	began, release chan struct{}
	err            error
}

func (slowJournal) Alarms() []api.Alarm { return nil }

func (j slowJournal) Backup(_ context.Context, w io.Writer) error {
	_, _ = io.WriteString(w, "all")
	close(j.began)
	<-j.release
	return nil
}

func (j slowJournal) Restore(context.Context, io.Reader, api.RestoreMode) (api.Restored, error) {
	return api.Restored{}, j.err
}

// There is one backup at a time, whichever listeners ask, and a restore meanwhile.
func TestOneBackupAtATime(t *testing.T) {
	j := slowJournal{began: make(chan struct{}), release: make(chan struct{}), err: fmt.Errorf("%w of n1", &api.Error{Code: api.CodeCountedTwice, Message: "twice"})}
	d := newListener(t, service.Backend{Journal: j}, service.Config{})
	var file bytes.Buffer
	first := make(chan error, 1)
	go func() { first <- d.service.Backup(context.Background(), d.caller, &file) }()
	<-j.began
	e := d.wantCode(d.service.Backup(t.Context(), d.caller, io.Discard), api.CodeBackupRunning)
	if e.Message != "another backup is being taken, and there is one at a time: wait for its end" {
		t.Error(e.Message)
	}
	_, err := d.service.Restore(t.Context(), d.caller, strings.NewReader(""), api.Replace)
	d.wantCode(err, api.CodeCountedTwice)
	close(j.release)
	if err := <-first; err != nil || file.String() != "all" {
		t.Errorf("%v, %q", err, file.String())
	}
	if got := d.service.Alarms(); len(got) != 0 {
		t.Errorf("a second backup is an alarm: %+v", got)
	}
}

// A listener decides with package internal/admit alone.
func TestDecisions(t *testing.T) {
	d := newListener(t, service.Backend{}, service.Config{})
	limit := engine.Limit{N: 1, Per: 60e9}
	var decision admit.Decision
	for i := range 2 {
		err := d.service.Allow(d.caller, []admit.Request{{Key: "a", N: 1, Inline: &limit}}, false, &decision)
		if err != nil || decision.Allowed != (i == 0) {
			t.Errorf("time %d: %+v, %v", i, decision, err)
		}
	}
}
