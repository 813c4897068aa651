package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

// reserver reserves of one key, and settles, until the server is killed.
type reserver struct {
	key      string
	asked    []asked
	answered int // of asked: reserved, and acknowledged
}

// asked is a reservation: ten admissions, of which it uses some.
type asked struct {
	id      string
	used    uint64
	settled bool // and acknowledged
}

// run reserves, settles most, and notes what was acknowledged; enough is called for each request.
func (r *reserver) run(t *testing.T, c *client.Client, random *rand.Rand, each func()) {
	check := client.Check{Key: r.key, N: 10}
	for {
		made, err := c.Reserve(t.Context(), client.Reservation{TTL: time.Hour}, check)
		if err != nil {
			return // it is killed: what it took under that ID, nobody can settle
		}
		a := asked{id: made.ID, used: random.Uint64N(11)}
		each()
		if random.IntN(4) > 0 {
			_, err = c.Settle(t.Context(), a.id, a.used, false)
			a.settled = err == nil
			each()
		}
		r.asked = append(r.asked, a)
		if err != nil {
			return
		}
	}
}

// A server that is killed while it reserves and settles leaves of each reservation all or nothing, with its admissions: what each key has
// used afterwards is what its reservations that are known have used, to the admission, and nothing is given back twice. What was on disk is known.
func TestCrashOfReservations(t *testing.T) {
	t.Parallel()
	path, _ := policyFile(t, "limits:\n- {name: tokens, keys: \"team:*\", limit: 1000000, per: 366d}\n")
	dir := filepath.Join(t.TempDir(), "data")
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
	known := map[string]uint64{} // used, by key, of all rounds
	lost := 0
	for round := range max(1, *crashRounds/3) {
		p := startProcess(t, dir, "--policy", path)
		c := reservationsClient(t, p)
		reservers := make([]reserver, 4)
		var work sync.WaitGroup
		var requests atomic.Int64
		until := int64(100 + random.IntN(200))
		killed := make(chan struct{})
		for i := range reservers {
			r := &reservers[i]
			r.key = fmt.Sprintf("team:%d:%d", round, i)
			seed := rand.New(rand.NewPCG(random.Uint64(), 1))
			for range 5 {
				made, err := c.Reserve(t.Context(), client.Reservation{TTL: time.Hour}, client.Check{Key: r.key, N: 10})
				if err != nil || !made.Allowed {
					t.Fatal(made, err)
				}
				r.asked = append(r.asked, asked{id: made.ID, used: 3})
			}
			r.answered = len(r.asked)
			if err := p.hit("x", "", true); err != nil { // a flush later: they are on disk
				t.Fatal(err)
			}
			work.Go(func() {
				r.run(t, c, seed, func() {
					if requests.Add(1) == until {
						close(killed)
					}
				})
			})
		}
		stopped := make(chan struct{})
		go func() {
			work.Wait() // an answer that took too long ends one, too
			close(stopped)
		}()
		select {
		case <-killed:
		case <-stopped:
		}
		if _, err := p.end(t, syscall.SIGKILL); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		<-stopped

		p = startProcess(t, dir, "--policy", path)
		c = reservationsClient(t, p)
		for i := range reservers {
			r := &reservers[i]
			for k, a := range r.asked {
				made, err := c.Settle(t.Context(), a.id, a.used, false)
				var refused *client.Error
				switch {
				case errors.As(err, &refused) && refused.Code == api.CodeUnknownReservation && k >= r.answered:
					lost++ // within the last flush interval
				case err != nil || made.Limits[0].Used != a.used:
					t.Fatalf("reservation %d of %s: %+v, %v, want %d used", k, r.key, made, err, a.used)
				default:
					known[r.key] += a.used
				}
			}
			// One that was under way when the server was killed may be known to it, and to nobody who could settle it.
			d, err := c.Peek(t.Context(), client.Check{Key: r.key})
			if err != nil {
				t.Fatal(err)
			}
			if used := d.Limits[0].Burst - d.Limits[0].Remaining; used != known[r.key] && used != known[r.key]+10 {
				t.Errorf("%s has used %d, and its reservations %d", r.key, used, known[r.key])
			}
		}
		if _, err := p.end(t, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d reservations of the last moments were lost, with their admissions", lost)
}

func reservationsClient(t *testing.T, p *process) *client.Client {
	t.Helper()
	c, err := client.New(p.addr, client.Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
