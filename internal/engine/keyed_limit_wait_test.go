package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
)

// Callers that wait pass at the rate of the key's limit, and never more than that; who can't in time takes nothing.
func TestKeyedLimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		l := mustLimit(t, e, "l", Limit{N: 10, Per: time.Second})
		start := time.Now()
		var mu sync.Mutex
		var passed []time.Duration
		var waiting sync.WaitGroup
		for range 45 {
			waiting.Go(func() {
				if err := l.Wait(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				passed = append(passed, time.Since(start))
			})
		}
		waiting.Wait()
		for i, at := range passed {
			if second := time.Duration(i/10) * time.Second; at < second || at > second+100*time.Millisecond {
				t.Errorf("number %d passed after %v", i+1, at)
			}
		}
		if err := l.Wait(t.Context(), "other"); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := l.WaitN(short, "k", 10); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > passed[44] {
			t.Errorf("longer than its deadline: %v", err)
		}
		over, end := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, end)
		if err := l.WaitN(over, "k", 10); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if v, err := l.Peek("k", 0); err != nil || v.Remaining != 5 {
			t.Errorf("who failed took something: %+v, %v", v, err)
		}
		wantCode(t, l.WaitN(t.Context(), "k", 11), api.CodeInvalidCount)
		wantCode(t, l.Wait(t.Context(), ""), api.CodeInvalidKey)
	})
}
