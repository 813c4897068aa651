// Package parallel calls a function for many things side by side.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls f for 0 to n-1 on as many goroutines as there are processors,
// and returns the first error. All calls are made, and have ended.
func Do(n int, f func(i int) error) error {
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	return first
}
