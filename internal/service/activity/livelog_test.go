package activity

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
)

var livelogSecond = time.Unix(1_769_860_800, 0)

func clock() time.Time { return livelogSecond }

func all() Reader { return Reader{Keys: []string{""}, Sees: func(_, _ string) bool { return true }} }

func open(t testing.TB, l *Log, name string, who Reader) *Tap {
	t.Helper()
	tap, err := l.open(name, "client "+name, who)
	if err != nil {
		t.Fatal(err)
	}
	return tap
}

// Few hits are shown all, the newest first, and remembered when there are none.
func TestFew(t *testing.T) {
	l := NewLog(clock)
	l.Hit(livelogSecond, "before anybody looks", 1)
	tap := open(t, l, "a", all())
	for i := range 3 {
		l.Hit(livelogSecond, fmt.Sprint(i), uint64(i+1))
	}
	for range 2 {
		v := tap.view()
		if len(v.Events) != 3 || v.Events[0].Key != "2" || v.Events[0].N != 3 || v.Events[2].Key != "0" {
			t.Errorf("%+v", v.Events)
		}
	}
	if v := tap.view(); v.Hits != (api.LogShare{Shown: 0, OneIn: 1}) || v.Events[0].Number != 3 {
		t.Errorf("an interval without hits: %+v", v)
	}
}

// Of many hits, at once and from many goroutines, an interval shows PerTick at most, each with the chance that it reports, and a tap keeps KeptEvents.
func TestMany(t *testing.T) {
	l := NewLog(clock)
	tap := open(t, l, "a", all())
	const hits, intervals = 20_000, 60
	var early, estimated float64
	for range intervals {
		var running sync.WaitGroup
		for half := range 2 {
			running.Go(func() {
				for i := range hits / 2 {
					l.Hit(livelogSecond, fmt.Sprint(i), uint64(half+1))
				}
			})
		}
		running.Wait()
		v := tap.view()
		if v.Hits.Shown > PerTick || len(v.Events) > KeptEvents {
			t.Fatalf("%d of an interval, %d in all", v.Hits.Shown, len(v.Events))
		}
		estimated += float64(v.Hits.Shown) * float64(v.Hits.OneIn)
		for _, e := range v.Events[:v.Hits.Shown] {
			var i int
			if _, err := fmt.Sscan(e.Key, &i); err != nil {
				t.Fatal(err)
			}
			if i < hits/4 {
				early++
			}
		}
		early -= float64(v.Hits.Shown) / 2
	}
	// Some 400 hits were shown: 10 deviations of their mean are half of it, and of the difference of two halves 100.
	if mean := estimated / intervals; mean < hits/2 || mean > hits*3/2 {
		t.Errorf("the shares stand for %.0f hits an interval, not of %d", mean, hits)
	}
	if early < -100 || early > 100 {
		t.Errorf("%.0f more are of the first half of an interval than half of them", early)
	}
}

// A reader sees keys that are for it, and what is shown of them does not depend on others'.
func TestReaders(t *testing.T) {
	l := NewLog(clock)
	some := open(t, l, "some", Reader{Keys: []string{"shop:"}, Sees: func(limit, key string) bool { return limit == "login" && key[0] == 's' }})
	for range 5000 {
		l.Hit(livelogSecond, "other", 1)
	}
	l.Hit(livelogSecond, "shop:cart", 1)
	deny := func(key string, limits ...string) {
		d := &admit.Decision{Denial: []byte("1a")}
		for _, name := range limits {
			d.Results = append(d.Results, admit.Result{Name: name, Key: key, N: 2})
		}
		d.Denied = &d.Results[0]
		l.Denial([]admit.Request{{Key: key}}, d)
	}
	deny("shop:bob", "login")
	deny("shop:bob", "login", "secret")
	deny("other", "login")
	v := some.view()
	if len(v.Events) != 2 || v.Hits != (api.LogShare{Shown: 1, OneIn: 1}) || v.Denials != (api.LogShare{Shown: 1, OneIn: 1}) {
		t.Fatalf("%+v", v)
	}
	for _, e := range v.Events {
		if e.Limit == "" && e.Key != "shop:cart" || e.Limit != "" && (e.Key != "shop:bob" || e.Limit != "login" || e.Denial != "1a" || e.N != 2) {
			t.Errorf("%+v", e)
		}
	}
}

// Readers of one name share a tap, which ends when nobody has viewed it for a while; one client has its share.
func TestTaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(clock)
		one, two := open(t, l, "a", all()), open(t, l, "a", all())
		if one != two {
			t.Error("one name has two taps")
		}
		for range 3 {
			time.Sleep(tapLife * 3 / 4)
			if _, err := l.View("a", "client a", all()); err != nil || open(t, l, "a", all()) != one {
				t.Fatalf("it ended while one looks: %v", err)
			}
		}
		time.Sleep(tapLife)
		synctest.Wait()
		if l.taps.Load() != nil {
			t.Error("it goes on while nobody looks")
		}
		for i := range MaxOwn {
			if _, err := l.View(fmt.Sprint(i), "greedy", all()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.View("more", "greedy", all()); !errors.Is(err, ErrShare) {
			t.Errorf("one more: %v", err)
		}
		for i := MaxOwn; i < MaxTaps; i++ {
			open(t, l, fmt.Sprint(i), all())
		}
		if _, err := l.View("more", "other", all()); !errors.Is(err, ErrTapsFull) {
			t.Errorf("beyond all: %v", err)
		}
		time.Sleep(tapLife) // the timers end
	})
}

// What a hit pays: while nobody looks, one page, and as many different pages as there may be, which all see every hit.
func BenchmarkHit(b *testing.B) {
	for _, taps := range []int{0, 1, MaxTaps} {
		b.Run(fmt.Sprintf("taps=%d", taps), func(b *testing.B) {
			l := NewLog(time.Now)
			for i := range taps {
				open(b, l, fmt.Sprint(i), Reader{Keys: []string{"url:"}, Sees: all().Sees})
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.Hit(livelogSecond, "url:/home", 1)
				}
			})
		})
	}
}
