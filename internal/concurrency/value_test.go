package concurrency_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/internal/concurrency"
)

// One asks again when the answer is old; the others do not wait for it.
func TestGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v concurrency.Value[int]
		asked := 0
		next := func() int { asked++; return asked }
		for range 3 {
			if got := v.Get(time.Second, next); got != 1 {
				t.Errorf("got %d", got)
			}
		}
		time.Sleep(time.Second)
		slow := make(chan struct{})
		done := make(chan int)
		go func() { done <- v.Get(time.Second, func() int { <-slow; return next() }) }()
		synctest.Wait()
		if got := v.Get(time.Second, next); got != 1 {
			t.Errorf("while another asks: %d", got)
		}
		close(slow)
		if got := <-done; got != 2 || v.Get(time.Second, next) != 2 || asked != 2 {
			t.Errorf("got %d, asked %d times", got, asked)
		}
	})
}
