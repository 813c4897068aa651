package node_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/node"
	"github.com/weir-counter/weir/node/nodetest"
	"github.com/weir-counter/weir/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sameLimits has a policy of each kind, for keys as Envoy's listener makes them: d:KIND=a.
const sameLimits = `limits:
- {name: ring,     keys: "d:ring=*",     limit: 5,  per: 1m}
- {name: slots,    keys: "d:slots=*",    limit: 40, per: 1m}
- {name: gcra,     keys: "d:gcra=*",     limit: 6,  per: 1m, algorithm: gcra}
- {name: fixed,    keys: "d:fixed=*",    limit: 6,  per: 1m, algorithm: fixed}
- {name: month,    keys: "d:month=*",    limit: 7,  per: month}
- {name: reserved, keys: "d:reserved=*", limit: 30, per: 1m}
- {name: waits,    keys: "d:waits=*",    limit: 1, per: 20ms, wait: 10s}
- {name: costs,    keys: "d:costs=*",    limit: 100, per: 1m, cost: tokens}
- {name: jobs,     keys: "d:jobs=*",     max: 2, ttl: 30s}
`

// sameStep is one request of a schedule.
type sameStep struct {
	at   time.Duration // of the clock that the test sets
	op   string
	n    uint64
	step int // settle, heartbeat, release: the step that reserved, or acquired
}

// sameOutcome is what a listener says of a step; what it has no words for is -1.
type sameOutcome struct {
	ok   bool
	left int64 // what is left, or was freed by a refund or settling
	wait int64 // of a denial: ms, of a permit s
	over int64 // of settling

	waited bool // for its turn
}

// sameListener is one way to ask for decisions about keys of one kind.
type sameListener interface {
	do(t *testing.T, at int, s sameStep) sameOutcome
}

// The same worst-case schedule gives the same decisions through every listener and the library, of every kind of limit, by a clock
// that the test sets; and the worst case of each kind is reached, and never passed.
func TestSameDecisions(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for _, kind := range []struct {
		name      string
		steps     []sameStep
		in        time.Duration // an interval,
		most      uint64        // and the most that are admitted in any of its length
		listeners string
	}{
		{"ring", greedy(5, minute, true), minute, 5, "library http resp grpc"},
		{"slots", greedy(40, minute, true), minute, 40, "library http resp grpc"},
		{"gcra", greedy(6, minute, false), minute, 11, "library http resp grpc"},
		{"fixed", greedy(6, minute, false), minute, 12, "library http resp grpc"},
		{"month", greedy(7, 12*time.Hour, false), 31 * 24 * time.Hour, 14, "library http resp grpc"},
		{"reserved", reserving(), 0, 0, "library http resp"},
		{"jobs", permitting(), 0, 0, "http resp"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			var want []sameOutcome
			var first string
			for name := range strings.FieldsSeq(kind.listeners) {
				got := sameRun(t, name, kind.name, kind.steps)
				if want == nil {
					want, first = got, name
					continue
				}
				for i := range kind.steps {
					if g, w := got[i], want[i]; g.ok != w.ok || differs(g.left, w.left) || differs(g.wait, w.wait) || differs(g.over, w.over) {
						t.Fatalf("step %d, %+v: %s says %+v, %s says %+v", i, kind.steps[i], name, g, first, w)
					}
				}
			}
			if kind.most == 0 {
				return
			}
			if worst := mostWithin(kind.steps, want, kind.in); worst != kind.most {
				t.Errorf("%d within %v at worst, want %d", worst, kind.in, kind.most)
			}
		})
	}
}

func differs(a, b int64) bool { return a != b && a >= 0 && b >= 0 }

// mostWithin looks at every interval that ends at an admission. What was given back never was.
func mostWithin(steps []sameStep, got []sameOutcome, in time.Duration) (most uint64) {
	for i, end := range steps {
		var n uint64
		for j := range steps[:i+1] {
			if s := steps[j]; s.at > end.at-in && got[j].ok {
				switch s.op {
				case "take":
					n += s.n
				case "refund":
					n -= s.n // of what was taken just before, at the same time
				}
			}
		}
		most = max(most, n)
	}
	return most
}

// greedy asks for all that there is: at once, just before and at the edges of intervals, and in between at random. With refunds it gives
// some back.
func greedy(burst uint64, interval time.Duration, refunds bool) (steps []sameStep) {
	random := rand.New(rand.NewPCG(burst, 1))
	var at time.Duration
	for round, pause := range []time.Duration{interval - 1, 1, interval / 16, interval/16 + 1, interval - 1, 1, interval / 2, interval / 2, interval / 3, interval, interval + interval/16, interval - 1, 1} {
		at += pause
		for _, n := range []uint64{burst, burst/2 + 1, 1 + random.Uint64N(burst), burst / 3, 1, 1, 1, 1} {
			steps = append(steps, sameStep{at: at, op: "take", n: n})
		}
		if refunds && round%3 == 1 {
			at += time.Nanosecond
			steps = append(steps, sameStep{at: at, op: "take", n: 1}, sameStep{at: at, op: "refund", n: 1}, sameStep{at: at, op: "take", n: 1})
		}
		for range 4 {
			at += time.Duration(random.Int64N(int64(interval) / 8))
			steps = append(steps, sameStep{at: at, op: "take", n: 1 + random.Uint64N(2)})
		}
	}
	at += 2 * interval
	steps = append(steps, sameStep{at: at, op: "take", n: burst})
	for range burst - 1 { // one more whenever a bucket has filled for one
		at += interval / time.Duration(burst)
		steps = append(steps, sameStep{at: at, op: "take", n: 1})
	}
	return steps
}

// reserving takes what may be needed, and settles with less, with more, again, otherwise, and too late.
func reserving() (steps []sameStep) {
	for round := range 6 {
		at := time.Duration(round) * 25 * time.Second
		first := len(steps)
		steps = append(
			steps, sameStep{at: at, op: "reserve", n: 12}, sameStep{at: at, op: "reserve", n: 12}, sameStep{at: at, op: "reserve", n: 12},
			sameStep{at: at + time.Second, op: "settle", step: first, n: uint64(3 * round)}, sameStep{at: at + time.Second, op: "settle", step: first, n: uint64(3 * round)},
			sameStep{at: at + time.Second, op: "settle", step: first, n: 1},
			sameStep{at: at + 2*time.Second, op: "take", n: 9}, sameStep{at: at + 2*time.Second, op: "settle", step: first + 1, n: 13},
			sameStep{at: at + 3*time.Second, op: "take", n: 1},
		)
	}
	return steps
}

// permitting takes permits of one key before the server knows who holds them, renews some, gives some back, and lets others run out.
func permitting() []sameStep {
	const s = time.Second
	return []sameStep{
		{at: 0, op: "acquire"},
		{at: 30*s - 1, op: "acquire"},
		{at: 30 * s, op: "acquire"},
		{at: 31 * s, op: "acquire"},
		{at: 32 * s, op: "acquire"},
		{at: 40 * s, op: "heartbeat", step: 2},
		{at: 41 * s, op: "release", step: 3},
		{at: 41 * s, op: "release", step: 3},
		{at: 41 * s, op: "acquire"},
		{at: 41 * s, op: "acquire"},
		{at: 70*s - 1, op: "acquire"},
		{at: 70 * s, op: "acquire"}, // that of step 2, whose heartbeat was at 40 s
		{at: 70 * s, op: "heartbeat", step: 2},
		{at: 71*s - 1, op: "heartbeat", step: 8},
		{at: 100*s - 1, op: "acquire"},
		{at: 100 * s, op: "acquire"},
	}
}

// sameRun asks one listener, of a node of its own, for all steps.
func sameRun(t *testing.T, name, kind string, steps []sameStep) (got []sameOutcome) {
	t.Helper()
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	listener, _ := newSameListener(t, name, kind, clock)
	for i, s := range steps {
		passed.Store(int64(s.at))
		got = append(got, listener.do(t, i, s))
	}
	return got
}

// A policy with wait has a request wait through every listener until the limit lets it pass, and the answer says that it did.
func TestWaitThroughListeners(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"http", "resp", "grpc"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var passed atomic.Int64
			begun := time.Now()
			listener, n := newSameListener(t, name, "waits", func() time.Time { return begun.Add(time.Duration(passed.Load())) })
			take := sameStep{op: "take", n: 1}
			if first := listener.do(t, 0, take); !first.ok || first.waited {
				t.Fatalf("%+v", first)
			}
			passes := make(chan struct{})
			go func() {
				defer close(passes)
				transporttest.Eventually(t, "a request waits", func() bool {
					answer := httptest.NewRecorder()
					n.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
					return strings.Contains(answer.Body.String(), `weir_pool_in_use{pool="waiting"} 1`)
				})
				passed.Store(int64(20 * time.Millisecond))
			}()
			if second := listener.do(t, 1, take); !second.ok || !second.waited {
				t.Errorf("%+v", second)
			}
			<-passes
		})
	}
}

// What a request says that it costs is what a policy with that cost takes, through the listeners that have a place for it.
func TestCostsThroughListeners(t *testing.T) {
	t.Parallel()
	listener, n := newSameListener(t, "http", "costs", time.Now)
	c := listener.(*byHTTP).c
	d, err := c.Allow(t.Context(), client.Check{Key: "d:costs=a", Costs: map[string]uint64{"tokens": 70, "images": 1}})
	if err != nil || !d.Allowed || d.Limits[0].N != 70 || d.Limits[0].Remaining != 30 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := c.Allow(t.Context(), client.Check{Key: "d:costs=a"}); !refusedWith(t, err, api.CodeInvalidCount) {
		t.Error("a request without its cost is decided")
	}
	conn, err := net.Dial("tcp", n.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	redis := &byRESP{conn, bufio.NewReader(conn), "", nil}
	for cost, ok := range map[string]bool{"tokens=31": false, "tokens=0": true} {
		if got := ofReply(redis.ask(t, "ALLOW", "d:costs=a", "COST", cost)); got.ok != ok || got.left != 30 {
			t.Errorf("%s: %+v", cost, got)
		}
	}
	if _, isError := redis.ask(t, "ALLOW", "d:costs=a", "COST", "tokens=x").(error); !isError {
		t.Error("a cost that is no number is taken")
	}
}

func newSameListener(t *testing.T, name, kind string, clock func() time.Time) (sameListener, *node.Node) {
	t.Helper()
	set, err := policy.Parse("policies.yaml", []byte(sameLimits))
	if err != nil {
		t.Fatal(err)
	}
	key := "d:" + kind + "=a"
	if name == "library" {
		e, err := engine.New(engine.Config{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		written := set.Policies()[slices.IndexFunc(set.Policies(), func(p policy.Policy) bool { return p.Name == kind })]
		kl, err := e.Limit(kind, written.Limit)
		if err != nil {
			t.Fatal(err)
		}
		return &byLibrary{kl, key, clock}, nil
	}
	n := nodetest.Start(t, func(cfg *node.Config) {
		cfg.Engine.Now, cfg.Policies.Set = clock, set
		cfg.RESP.Addr, cfg.RLS.Addr = "127.0.0.1:0", "127.0.0.1:0"
	})
	switch name {
	case "http":
		c, err := client.New(n.Addr(), client.Options{Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		return &byHTTP{c, key, map[int]string{}, map[int]*client.Permit{}}, n
	case "resp":
		conn, err := net.Dial("tcp", n.RESPAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return &byRESP{conn, bufio.NewReader(conn), key, map[int]string{}}, n
	default:
		conn, err := grpc.NewClient(n.RLSAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return &byGRPC{pb.NewRateLimitServiceClient(conn), kind}, n
	}
}

// byLibrary asks an engine of the test's own.
type byLibrary struct {
	limit *engine.KeyedLimit
	key   string
	now   func() time.Time
}

func (d *byLibrary) do(t *testing.T, at int, s sameStep) sameOutcome {
	t.Helper()
	var v engine.Verdict
	var err error
	switch s.op {
	case "take":
		v, err = d.limit.Take(d.key, s.n)
	case "reserve":
		v, err = d.limit.Reserve(d.key, s.n, engine.Reservation{ID: strconv.Itoa(at), Until: d.now().Add(20 * time.Second)})
	case "refund":
		var freed uint64
		freed, err = d.limit.Refund(d.key, s.n, time.Time{})
		v = engine.Verdict{Allowed: true, Remaining: freed}
	case "settle":
		made, err := d.limit.Settle(d.key, strconv.Itoa(s.step), s.n, false)
		if refused, is := errors.AsType[*engine.Error](err); is && refused.Code == api.CodeKeyReused {
			return sameOutcome{}
		}
		if err != nil {
			t.Fatal(err)
		}
		return sameOutcome{ok: made.Known, left: int64(made.Freed), over: int64(made.Over)}
	}
	if err != nil {
		t.Fatal(err)
	}
	return outcomeOf(v.Allowed, v.Remaining, v.RetryAfter)
}

func outcomeOf(ok bool, left uint64, wait time.Duration) sameOutcome {
	return sameOutcome{ok: ok, left: int64(left), wait: int64((wait + time.Millisecond - 1) / time.Millisecond)}
}

// byHTTP asks with the client for Go.
type byHTTP struct {
	c            *client.Client
	key          string
	reservations map[int]string
	permits      map[int]*client.Permit
}

func (d *byHTTP) do(t *testing.T, at int, s sameStep) sameOutcome {
	t.Helper()
	ctx, check := t.Context(), client.Check{Key: d.key, N: s.n}
	var err error
	switch s.op {
	case "take":
		answer, err := d.c.Allow(ctx, check)
		if err != nil {
			t.Fatal(err)
		}
		out := outcomeOf(answer.Allowed, answer.Limits[0].Remaining, answer.RetryAfter())
		out.waited = answer.Waited() > 0
		return out
	case "refund":
		answer, err := d.c.Refund(ctx, time.Time{}, check)
		if err != nil {
			t.Fatal(err)
		}
		return sameOutcome{ok: true, left: int64(answer.Refunded)}
	case "reserve":
		answer, err := d.c.Reserve(ctx, client.Reservation{TTL: 20 * time.Second}, check)
		if err != nil {
			t.Fatal(err)
		}
		d.reservations[at] = cmp.Or(answer.ID, "none")
		return outcomeOf(answer.Allowed, answer.Limits[0].Remaining, answer.RetryAfter())
	case "settle":
		answer, err := d.c.Settle(ctx, d.reservations[s.step], s.n, false)
		if refused, is := errors.AsType[*client.Error](err); is && refused.Code == api.CodeKeyReused || refusedWith(t, err, api.CodeUnknownReservation) {
			return sameOutcome{}
		}
		return sameOutcome{ok: true, left: int64(answer.Limits[0].Refunded), over: int64(answer.Over)}
	case "acquire":
		var p *client.Permit
		if p, err = d.c.Acquire(ctx, d.key, ""); refusedWith(t, err, api.CodeAtOnce) {
			var e *client.Error
			_ = errors.As(err, &e)
			return sameOutcome{wait: int64(e.After / time.Second)}
		}
		d.permits[at] = p
	case "heartbeat":
		if err = d.permits[s.step].Heartbeat(ctx); errors.Is(err, client.ErrPermitLost) {
			return sameOutcome{}
		}
	case "release":
		err = d.permits[s.step].Release(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sameOutcome{ok: true}
}

// refusedWith tells whether the error is one of a code; another one fails the test.
func refusedWith(t *testing.T, err error, code api.Code) bool {
	t.Helper()
	var e *client.Error
	if err != nil && (!errors.As(err, &e) || e.Code != code) {
		t.Fatal(err)
	}
	return err != nil
}

// byRESP asks as clients of Redis do.
type byRESP struct {
	conn net.Conn
	in   *bufio.Reader
	key  string
	ids  map[int]string
}

func (d *byRESP) do(t *testing.T, at int, s sameStep) sameOutcome {
	t.Helper()
	number := func(v any) int64 { return v.(int64) }
	switch s.op {
	case "take":
		return ofReply(d.ask(t, "ALLOW", d.key, "COST", fmt.Sprint(s.n)))
	case "refund":
		return sameOutcome{ok: true, left: number(d.ask(t, "REFUND", d.key, "COST", fmt.Sprint(s.n)))}
	case "reserve":
		reply := d.ask(t, "RESERVE", d.key, "COST", fmt.Sprint(s.n), "TTL", "20s").([]any)
		id, _ := reply[0].(string)
		d.ids[at] = cmp.Or(id, "none")
		return ofReply(reply[1])
	case "settle":
		reply, ok := d.ask(t, "SETTLE", d.ids[s.step], fmt.Sprint(s.n)).([]any)
		if !ok {
			return sameOutcome{}
		}
		return sameOutcome{ok: true, left: number(reply[0]), over: number(reply[1])}
	case "acquire":
		reply := d.ask(t, "PERMIT", d.key).([]any)
		id, ok := reply[0].(string)
		if !ok {
			return sameOutcome{wait: (number(reply[1]) + 999) / 1000}
		}
		d.ids[at] = id
	case "heartbeat":
		if _, ok := d.ask(t, "HEARTBEAT", d.ids[s.step]).(int64); !ok {
			return sameOutcome{}
		}
	case "release":
		d.ask(t, "RELEASE", d.ids[s.step])
	}
	return sameOutcome{ok: true}
}

// ofReply reads the reply of ALLOW: allowed, remaining, retry_after_ms and more.
func ofReply(reply any) sameOutcome {
	list := reply.([]any)
	ok := list[0].(int64) == 1
	return sameOutcome{ok: ok, left: list[1].(int64), wait: list[2].(int64), waited: ok && len(list) == 6 && list[5].(int64) > 0}
}

// ask sends a command; an error of the server is an error.
func (d *byRESP) ask(t *testing.T, args ...string) any {
	t.Helper()
	command := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(d.conn, command); err != nil {
		t.Fatal(err)
	}
	reply, err := d.read()
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// read reads a reply: int64, string, []any, error or nil.
func (d *byRESP) read() (any, error) {
	line, err := d.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	if line[0] == '-' {
		return errors.New(text), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || line[0] == ':':
		return n, err
	case n < 0:
		return nil, nil
	case line[0] == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(d.in, b)
		return string(b[:n]), err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = d.read(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// byGRPC asks as Envoy does.
type byGRPC struct {
	c    pb.RateLimitServiceClient
	kind string
}

func (d *byGRPC) do(t *testing.T, _ int, s sameStep) sameOutcome {
	t.Helper()
	answer, err := d.c.ShouldRateLimit(context.WithoutCancel(t.Context()), &pb.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: d.kind, Value: "a"}},
		HitsAddend: wrapperspb.UInt64(s.n), IsNegativeHits: s.op == "refund",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	out := sameOutcome{ok: answer.OverallCode == pb.RateLimitResponse_OK, left: -1, wait: -1}
	out.waited = slices.ContainsFunc(answer.ResponseHeadersToAdd, func(h *core.HeaderValue) bool { return h.Key == "weir-waited" })
	if out.ok && s.op == "take" {
		out.left = int64(answer.Statuses[0].LimitRemaining)
	}
	return out
}
