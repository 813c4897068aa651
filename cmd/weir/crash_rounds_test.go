package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/client"
)

var (
	crashRounds = flag.Int("rounds", 3, "how often TestCrashRounds kills a server")
	crashSeed   = flag.Uint64("crash-seed", 0, "seed of TestCrashRounds; 0: a random one")
)

const (
	crashKeys    = 1000
	crashWriters = 4
)

// request is one that is sent again under the same id until it is answered.
type request struct {
	id  string
	key int
	n   uint64
}

// plainHit was answered at a time.
type plainHit struct {
	key int
	at  time.Time
}

// crashWriter is one of several that send at the same time.
type crashWriter struct {
	rand    *rand.Rand
	number  int
	next    int
	pending []request         // durable ones without an answer
	done    []request         // some of those with one
	durable [crashKeys]uint64 // answered
	sent    [crashKeys]uint64 // plain, answered or not
	plain   []plainHit        // of this life of the server
}

// post sends one hit; ok says that it was counted, and is on disk if durable.
func (p *process) post(key string, n uint64, id string, durable bool) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://%s/v1/hits?durable=%v", p.addr, durable), strings.NewReader(fmt.Sprint(key, " ", n)))
	if err != nil {
		return false
	}
	if id != "" {
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct {
		Counted uint64
		Durable bool
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return err == nil && resp.StatusCode == http.StatusOK && answer.Counted == n && answer.Durable == durable
}

func durableKey(key int) string { return fmt.Sprint("durable:", key) }
func plainKey(key int) string   { return fmt.Sprint("plain:", key) }

// run sends until the server does not answer any more, or for so many requests.
func (w *crashWriter) run(p *process, requests int) {
	for range requests {
		key := w.rand.IntN(crashKeys)
		if w.rand.IntN(2) == 0 {
			w.sent[key]++
			if !p.post(plainKey(key), 1, "", false) {
				return
			}
			w.plain = append(w.plain, plainHit{key, time.Now()})
			continue
		}
		w.next++
		r := request{fmt.Sprintf("%d-%d", w.number, w.next), key, 1 + w.rand.Uint64N(3)}
		if !p.post(durableKey(key), r.n, r.id, true) {
			w.pending = append(w.pending, r)
			return
		}
		w.durable[key] += r.n
		if w.rand.IntN(20) == 0 {
			w.done = append(w.done, r)
		}
	}
}

// again sends what had no answer, and some of what had one.
func (w *crashWriter) again(t *testing.T, p *process) {
	for _, r := range w.pending {
		if !p.post(durableKey(r.key), r.n, r.id, true) {
			t.Errorf("%+v is not taken after a restart", r)
		}
		w.durable[r.key] += r.n
	}
	for _, r := range append(w.pending, w.done...) {
		if !p.post(durableKey(r.key), r.n, r.id, true) {
			t.Errorf("%+v is not answered a second time", r)
		}
	}
	w.pending, w.done = nil, nil
}

// counts asks for every key of a kind.
func (p *process) counts(t *testing.T, name func(int) string) (all [crashKeys]uint64) {
	t.Helper()
	c, err := client.New(p.addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := client.CountQuery{Windows: []time.Duration{24 * time.Hour}}
	for key := range crashKeys {
		q.Keys = append(q.Keys, name(key))
	}
	answers, err := c.Count(t.Context(), q)
	if err != nil || len(answers) != crashKeys {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for key, a := range answers {
		if !a.Exact {
			t.Errorf("%s: %+v is not exact", a.Key, a)
		}
		all[key] = a.Estimate
	}
	return all
}

// A server that is killed at random moments, also right after it was stopped for
// a while: every durable hit that was answered is counted once, those without an
// answer count once after they are sent again, no hit counts twice, and plain
// hits are lost only from the last moments.
func TestCrashRounds(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash-seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var writers [crashWriters]*crashWriter
	for i := range writers {
		writers[i] = &crashWriter{number: i, rand: rand.New(rand.NewPCG(seed, uint64(i+1)))}
	}
	dir := t.TempDir()
	p := startProcess(t, dir, "--snapshot-every", "64KiB")
	var lost, answered uint64
	for round := range *crashRounds {
		before := p.counts(t, plainKey)
		var wg sync.WaitGroup
		for _, w := range writers {
			w.plain, w.sent = nil, [crashKeys]uint64{}
			wg.Go(func() { w.run(p, 1<<30) })
		}
		var flushes flushWatch
		wg.Go(func() { flushes.run(p) })

		wait := func(most time.Duration) { <-time.After(time.Duration(r.Int64N(int64(most)))) }
		wait(1500 * time.Millisecond)
		if r.IntN(3) == 0 {
			p.signal(t, syscall.SIGSTOP)
			wait(400 * time.Millisecond)
			if r.IntN(2) == 0 {
				p.signal(t, syscall.SIGCONT)
				wait(50 * time.Millisecond)
			}
		}
		if _, err := p.end(t, syscall.SIGKILL); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		wg.Wait()

		p = startProcess(t, dir, "--snapshot-every", "64KiB")
		after := p.counts(t, plainKey)
		l, a := checkPlain(t, writers[:], before, after, flushes.safe())
		lost, answered = lost+l, answered+a
		checkDurable(t, p, writers[:])
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	var durable uint64
	for _, w := range writers {
		for _, n := range w.durable {
			durable += n
		}
	}
	t.Logf("%d rounds: %d durable hits, all there once; %d plain hits were answered, %d of them lost", *crashRounds, durable, answered, lost)
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
	mustWeir(t, exitOK, "", "verify", "--data", dir)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// checkPlain wants every plain hit that was answered before safe, and none more
// than was sent. It tells how many answered ones are gone.
func checkPlain(t *testing.T, writers []*crashWriter, before, after [crashKeys]uint64, safe time.Time) (lost, answered uint64) {
	t.Helper()
	least, most, all := before, before, before
	for _, w := range writers {
		for _, h := range w.plain {
			if answered++; h.at.Before(safe) {
				least[h.key]++
			}
			all[h.key]++
		}
		for key, n := range w.sent {
			most[key] += n
		}
	}
	for key, n := range after {
		if n < least[key] || n > most[key] {
			t.Errorf("%s: %d are counted: want %d that were safe to %d that were sent", plainKey(key), n, least[key], most[key])
		}
		lost += max(all[key], n) - n
	}
	return lost, answered
}

// checkDurable wants every durable hit once: before what had no answer is sent
// again at least those with one, and after it exactly all.
func checkDurable(t *testing.T, p *process, writers []*crashWriter) {
	t.Helper()
	var least, most [crashKeys]uint64
	for _, w := range writers {
		for key, n := range w.durable {
			least[key] += n
			most[key] += n
		}
		for _, r := range w.pending {
			most[r.key] += r.n
		}
	}
	for key, n := range p.counts(t, durableKey) {
		if n < least[key] || n > most[key] {
			t.Errorf("%s: %d are counted: want %d that were answered to %d that were sent", durableKey(key), n, least[key], most[key])
		}
	}
	for _, w := range writers {
		w.again(t, p)
	}
	for key, n := range p.counts(t, durableKey) {
		if n != most[key] {
			t.Errorf("%s: %d are counted after all was sent again, want %d", durableKey(key), n, most[key])
		}
	}
}

// A small disk that is flooded until it refuses, and then a kill: what was answered as
// durable is there, and what was not counts once when it is sent again with more space.
func TestCrashOnSmallDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir, "--max-disk", "57MiB")
	w := &crashWriter{rand: rand.New(rand.NewPCG(1, 1))}
	w.run(p, 200)
	if len(w.pending) > 0 {
		t.Fatal("a hit was not taken on a disk with space")
	}
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, log)
	}
	p = startProcess(t, dir, "--max-disk", "57MiB", "--durable-timeout", "500ms", "--flush-every", "1m") // so short for hits that are refused
	filler, err := client.New(p.addr, client.Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	hits, now := make([]client.Hit, 4000), time.Now()
	for i := 0; err == nil; i++ { // nobody waits for a flush, and what waits has space for 25 MiB
		if i == 50 { // 100 MB
			t.Fatal("a flood of more than the disk has space for is not refused")
		}
		for k := range hits { // other seconds of the same keys, for which memory has space
			hits[k] = client.Hit{Key: fmt.Sprint(strings.Repeat("k", 500), k), At: now.Add(-time.Duration(i) * time.Second)}
		}
		_, err = filler.Send(t.Context(), hits)
	}
	if refused := (*client.Error)(nil); !errors.As(err, &refused) || refused.Code != "overloaded" {
		t.Errorf("the flood is refused with %v", err)
	}
	for range 8 {
		w.run(p, 10)
	}
	if _, err := p.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("the process ended well in spite of SIGKILL")
	}
	p = startProcess(t, dir, "--max-disk", "1GiB")
	checkDurable(t, p, []*crashWriter{w})
	if log, err := p.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}
