package keyspace

import (
	"testing"
	"testing/synctest"
	"time"
)

// Who asks often gets the second without a look at the system's clock, and never one that
// is over.
func TestSureSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Wall
		sure := 0
		for range 5_000 { // five seconds
			for range 20 {
				if got, want := w.Second(), time.Now().Unix(); got != want {
					t.Fatalf("second %d, want %d", got, want)
				}
			}
			if w.sure.Load() != 0 {
				sure++
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if sure < 4_000 || sure > 4_500 {
			t.Errorf("it was sure for %d ms of 5000", sure)
		}
	})
}

// A correction counts at once, also while the second is sure.
func TestSureSecondIsCorrected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Wall
		ask := func() (second int64) {
			for range 2 * sureAfter {
				second = w.Second()
			}
			return second
		}
		before := ask()
		if w.sure.Load() != before {
			t.Fatal("it is not sure")
		}
		w.Correct(-time.Hour)
		if got := ask(); got != before-3600 || w.sure.Load() != got {
			t.Errorf("second %d after it was set back by an hour from %d", got, before)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.sure.Load() != 0 {
			t.Error("it is sure of a second that is over")
		}
	})
}

// Who asks seldom sets no timer.
func TestSeldomIsNotSure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Wall
		for range 300 {
			w.Second()
			if w.sure.Load() != 0 {
				t.Fatal("it is sure")
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}
