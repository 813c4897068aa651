package limits

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Admission is an admission that a caller received, between two times.
type Admission struct {
	Key           string
	before, after int64 // Unix ns
}

// AnswerLog records the answers that callers received, and compares the admissions with what a limit may admit. The zero AnswerLog is ready for use; it may be used by many goroutines.
type AnswerLog struct {
	mu       sync.Mutex
	admitted []Admission
	denied   int
	away     int
}

// Take makes a request, and notes what was answered in d.
func (l *AnswerLog) Take(live *admit.Live, r admit.Request, d *admit.Decision) error {
	before := time.Now().UnixNano()
	if err := live.Take([]admit.Request{r}, d); err != nil {
		return err
	}
	after := time.Now().UnixNano()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case d.Allowed:
		l.admitted = append(l.admitted, Admission{r.Key, before, after})
	case d.Results[0].Away != "":
		l.away++
	default:
		l.denied++
	}
	return nil
}

func (l *AnswerLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d admitted, %d denied, %d away so far", len(l.admitted), l.denied, l.away)
}

// Admissions returns the admissions of a key.
func (l *AnswerLog) Admissions(key string) (list []Admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.admitted {
		if a.Key == key {
			list = append(list, a)
		}
	}
	return list
}

// Worst returns the most admissions that a key of a policy surely had within one interval, and the most that the limit
// may admit. A key belongs to the policy if it begins with the first letter of the policy's pattern.
func (l *AnswerLog) Worst(t testing.TB, p policy.Policy, keys []string) (worst, most uint64) {
	t.Helper()
	plan, err := limit.New(p.Limit)
	if err != nil {
		t.Fatal(err)
	}
	if most = p.Limit.Burst; p.Limit.Algorithm == limit.GCRA {
		most = 2*p.Limit.Burst - 1
	}
	for _, key := range keys {
		if key[0] == p.Keys[0] {
			worst = max(worst, mostWithin(l.Admissions(key), int64(plan.Interval())))
		}
	}
	t.Logf("%s: %d within %v, at most %d may be", p.Name, worst, plan.Interval(), most)
	return worst, most
}

func mostWithin(all []Admission, interval int64) (most uint64) {
	for _, last := range all {
		n := uint64(1)
		for _, other := range all {
			if other.before > last.after-interval && other.after <= last.before {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Measure has callers ask, side by side, b.N times together, and reports how long each waited. ask gets the number of
// its question.
func Measure(b *testing.B, callers int, ask func(n int, d *admit.Decision)) {
	var mu sync.Mutex
	var all []time.Duration
	var asking sync.WaitGroup
	asks := make(chan int)
	for range callers {
		asking.Go(func() {
			var d admit.Decision
			var took []time.Duration
			for n := range asks {
				began := time.Now()
				ask(n, &d)
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	for n := 0; b.Loop(); n++ {
		asks <- n
	}
	close(asks)
	asking.Wait()
	slices.Sort(all)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(all[(len(all)-1)*q/100].Nanoseconds())/1e6, fmt.Sprintf("p%d-ms", q))
	}
}
