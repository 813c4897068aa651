package weir

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/limit"
)

func newTestLimiter(t *testing.T, l Limit) *Limiter {
	t.Helper()
	limiter, err := NewLimiter(l)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, Limit{N: 3, Per: time.Second})
		for i := range 3 {
			if !l.Allow() {
				t.Fatalf("request %d denied", i)
			}
		}
		if v := l.Take(1); v.Allowed || v.RetryAfter != time.Second {
			t.Errorf("the fourth: %+v", v)
		}
		time.Sleep(time.Second - 1)
		if l.Allow() {
			t.Error("a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if v := l.Peek(3); !v.Allowed || v.Remaining != 3 {
			t.Errorf("after a second: %+v", v)
		}
		if !l.AllowN(3) || l.AllowN(1) {
			t.Error("after a second: not three")
		}
	})
}

// Waiting callers pass in order, at the rate of the limit.
func TestLimiterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, Limit{N: 10, Per: time.Second, Burst: 1})
		start := time.Now()
		for i := range 20 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != time.Duration(i)*100*time.Millisecond {
				t.Fatalf("request %d after %v", i, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait longer than its deadline: %v", err)
		}
		if wait, err := l.Reserve(1); err != nil || wait != 100*time.Millisecond {
			t.Errorf("the refused wait took something: %v, %v", wait, err)
		}
		if v := l.Take(1); v.Allowed || v.RetryAfter != 200*time.Millisecond {
			t.Errorf("behind a reservation: %+v", v)
		}
		_, err := l.Reserve(2)
		wantCode(t, err, api.CodeInvalidCount)
	})
}

// A reservation ahead does not let requests before it break the limit.
func TestReserveNeverOver(t *testing.T) {
	for _, burst := range []uint64{1, 2, 5, 40} {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLimiter(t, Limit{N: burst, Per: time.Second})
			var at []time.Duration
			start := time.Now()
			for i := range 300 {
				if i%7 == 0 {
					wait, err := l.Reserve(1)
					if err != nil {
						t.Fatal(err)
					}
					at = append(at, time.Since(start)+wait)
				} else if l.Allow() {
					at = append(at, time.Since(start))
				}
				time.Sleep(time.Duration(i%13) * 10 * time.Millisecond)
			}
			for i := range at {
				if j := i + int(burst); j < len(at) && at[j]-at[i] < time.Second {
					t.Fatalf("burst %d: %d admissions within %v", burst, burst+1, at[j]-at[i])
				}
			}
		})
	}
}

// The textbook's setLimit(qps), with requests from all cores.
func TestSetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, Limit{N: 100, Per: time.Second})
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 1000 {
					if l.Allow() {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 100 {
			t.Errorf("%d of 100 admitted", admitted.Load())
		}
		if err := l.SetLimit(Limit{N: 200, Per: time.Second}); err != nil {
			t.Fatal(err)
		}
		if v := l.Peek(1); v.Remaining != 100 {
			t.Errorf("after 100 admissions and a limit of 200: %+v", v)
		}
		wantCode(t, l.SetLimit(Limit{}), api.CodeInvalidLimit)
		if err := l.SetLimit(Limit{N: 50, Per: time.Second, Algorithm: limit.GCRA}); err != nil {
			t.Fatal(err)
		}
		if l.Allow() {
			t.Error("a lower limit granted a fresh allowance")
		}
	})
}

func BenchmarkLimiterAllow(b *testing.B) {
	l, err := NewLimiter(Limit{N: 1000, Per: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Allow()
		}
	})
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != code || e.Message == "" {
		t.Errorf("got error %v, want code %s", err, code)
	}
}
