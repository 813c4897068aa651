package replica

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/journal/record"
)

// A node is late by silence and by lag, within a bound that follows from what it
// promised; one that keeps its promise is not, whatever its flush interval.
func TestLateness(t *testing.T) {
	begin := time.UnixMilli(1_800_000_000_000)
	for _, flushEvery := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second, time.Minute} {
		promise := Promised(flushEvery)
		for _, test := range []struct {
			name    string
			beats   time.Duration // they end then
			writes  time.Duration // its flushes stop then to reach the journal
			follows time.Duration // this node stops then to apply them
			why     Lateness
			within  time.Duration // of that
		}{
			{"well", never, never, never, "", 0},
			{"down", time.Hour, time.Hour, never, Silent, LateAfter + HeartbeatEvery},
			{"no quorum", never, time.Hour, never, Unwritten, promise + LateAfter + HeartbeatEvery},
			{"this node is behind", never, never, time.Hour, Behind, promise + LateAfter + 2*HeartbeatEvery},
		} {
			var p peer
			var lane record.Head
			var heard, lateAt time.Time
			last := begin // cut of the newest flush in the journal
			for now := begin; now.Before(begin.Add(time.Hour + promise + time.Minute)); now = now.Add(100 * time.Millisecond) {
				at := now.Sub(begin)
				if now.Sub(last) >= max(flushEvery, HeartbeatEvery) && at < test.writes {
					last = now
				}
				flush := uint64(last.Sub(begin)/(100*time.Millisecond)) + 1
				if at < test.follows && lane.Flush < flush {
					lane, heard = record.Head{Epoch: 1, Flush: flush}, now
				}
				if at%HeartbeatEvery == 0 && at < test.beats {
					p.hear(now, Heartbeat{record.Incarnation{Origin: 1, Epoch: 1}, "n2", promise, flush, now.Sub(last), ""})
				}
				p.follow(lane)
				why, since := p.late(now, heard)
				if why == "" {
					lateAt = time.Time{}
					continue
				}
				if lateAt.IsZero() {
					lateAt = now
				}
				if why != test.why {
					t.Fatalf("flushes each %v, %s: after %v it is %s", flushEvery, test.name, at, why)
				}
				if missed := begin.Add(time.Hour); since.After(missed) || since.Before(missed.Add(-promise-HeartbeatEvery)) {
					t.Fatalf("flushes each %v, %s: hits may be missing since %v, want about 1h", flushEvery, test.name, since.Sub(begin))
				}
			}
			if after := lateAt.Sub(begin.Add(time.Hour)); test.why != "" && (lateAt.IsZero() || after > test.within) {
				t.Errorf("flushes each %v, %s: late %v after that, want within %v", flushEvery, test.name, after, test.within)
			}
			if len(p.claims) > maxClaims {
				t.Errorf("%d claims", len(p.claims))
			}
		}
	}
}

const never = time.Duration(1<<63 - 1)

// One that is heard of, and of which nothing was followed, is late too; one that has left
// is not, until it begins another life.
func TestLatenessOfLanes(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	r := manyOrigins(t, 2, now)
	r.clustered = true
	names := func(now time.Time) (list []string) {
		for origin := range r.audit.byOrigin {
			r.audit.progressOf(origin).heard = now
		}
		_, late := r.Freshness(now)
		for _, o := range late {
			list = append(list, o.Node+" "+string(o.Why))
		}
		return list
	}
	say := func(now time.Time, origin, epoch uint64, name string, age time.Duration) {
		r.Hear(now, Heartbeat{record.Incarnation{Origin: origin, Epoch: epoch}, name, Promised(0), 1, age, ""})
	}
	say(now, 3, 1, "n3", 0)
	if got := names(now); len(got) > 0 {
		t.Errorf("%v are late at once", got)
	}
	for range 10 {
		now = now.Add(time.Second)
		say(now, 1, 1, "n1", 0)
		say(now, 2, 1, "n2", 0)
		say(now, 3, 1, "n3", 0)
	}
	if got := names(now); len(got) != 1 || got[0] != "n3 behind" {
		t.Errorf("late are %v, want n3, of which nothing is here", got)
	}
	r.audit.progressOf(2).left = true
	for i := range 10 {
		now = now.Add(time.Second)
		say(now, 1, 1, "n1", 0)
		say(now, 2, 2, "n2", time.Duration(i)*time.Second) // its hello is not here
		say(now, 3, 1, "n3", 0)
	}
	if got := names(now); len(got) != 2 || got[0] != "n2 behind" && got[0] != "n2 unwritten" {
		t.Errorf("late are %v, want n2 too, which began another life", got)
	}
	say(now, 1, 1, "n1", time.Minute) // its own flushes wait
	now = now.Add(time.Second)
	r.peers[1].fresh = now.Add(-time.Minute)
	if got := names(now); len(got) != 3 || got[0] != "n1 unwritten" {
		t.Errorf("late are %v, want this node too", got)
	}
}

// Flushes that waited for long and come one after the other do not say that there are no more
// of them: until a beat tells which is the last one, their node is late, since what was known
// of it before.
func TestLatenessBeforeTheFirstBeat(t *testing.T) {
	begin := time.UnixMilli(1_800_000_000_000)
	r := manyOrigins(t, 2, begin)
	r.clustered = true
	say := func(now time.Time, origin, epoch, flush uint64) {
		r.Hear(now, Heartbeat{record.Incarnation{Origin: origin, Epoch: epoch}, fmt.Sprint("n", origin), Promised(0), flush, 0, ""})
	}
	flush := func(now time.Time, number uint64) {
		l := r.audit.progressOf(2)
		l.flush = number
		l.arrived(now, now)
	}
	check := func(now time.Time, want ...string) {
		t.Helper()
		var got []string
		_, late := r.Freshness(now)
		for _, o := range late {
			got = append(got, fmt.Sprint(o.Node, " ", o.Why, " ", o.Since.Sub(begin)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %v late are %v, want %v", now.Sub(begin), got, want)
		}
	}
	after := func(d time.Duration) time.Time { return begin.Add(d) }
	say(after(10*time.Second), 1, 1, 1)
	check(after(time.Second))
	check(after(10*time.Second), "n2 silent 0s")
	flush(after(10*time.Second), 2)
	check(after(10*time.Second), "n2 silent 0s")
	say(after(10*time.Second), 2, 1, 3)
	check(after(10*time.Second), "n2 behind 0s")
	flush(after(11*time.Second), 3)
	check(after(11 * time.Second))

	// It leaves, and comes again: meanwhile it took nothing.
	r.audit.progressOf(2).left = true
	say(after(time.Hour), 1, 1, 1)
	check(after(time.Hour))
	say(after(time.Hour), 2, 2, 1)
	check(after(time.Hour))
}

// What is no beat is none, and one is read as it was said.
func TestBeatBytes(t *testing.T) {
	b := Heartbeat{record.Incarnation{Origin: 1 << 63, Epoch: 7}, "n1", 61 * time.Second, 1 << 40, 1500 * time.Millisecond, "its disk is full"}
	data := b.Encode()
	if got, ok := DecodeHeartbeat(data); !ok || got != b {
		t.Errorf("%+v, %v, want %+v", got, ok, b)
	}
	for n := range len(data) {
		if got, ok := DecodeHeartbeat(data[:n]); ok {
			t.Errorf("%d bytes are %+v", n, got)
		}
	}
	if _, ok := DecodeHeartbeat(append(data, make([]byte, record.MaxNodeBytes)...)); ok {
		t.Error("a name without end")
	}
}

func FuzzBeat(f *testing.F) {
	f.Add(Heartbeat{record.Incarnation{Origin: 1, Epoch: 2}, "n1", time.Second, 3, time.Second, ""}.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		b, ok := DecodeHeartbeat(data)
		if !ok {
			return
		}
		if again, ok := DecodeHeartbeat(b.Encode()); !ok || again != b {
			t.Errorf("%+v is read as %+v", b, again)
		}
	})
}
