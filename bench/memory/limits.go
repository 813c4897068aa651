package main

import (
	"fmt"
	"runtime"

	"github.com/weir-counter/weir/bench/limiters"
	"github.com/weir-counter/weir/bench/machine"
	"github.com/weir-counter/weir/bench/traffic"
)

const limitedKeys = 1_000_000

// printLimits prints what a key under a limit takes: its name and all that is
// kept of it when its requests are used up.
func printLimits() {
	for _, requests := range []uint64{1, 3, 10} {
		for _, design := range limiters.Designs() {
			fmt.Printf("BenchmarkLimitMemory/requests=%d/design=%s %d %.1f B/key\n",
				requests, design.Name, limitedKeys, float64(limits(design.New(requests), requests))/limitedKeys)
		}
	}
}

func limits(allow limiters.Allow, requests uint64) int64 {
	before := machine.Heap()
	var key []byte
	for i := range limitedKeys {
		key = traffic.AppendSparseKey(key[:0], i)
		name := string(key) // the limiter's to keep
		for range requests {
			allow(name)
		}
	}
	bytes := machine.Heap() - before
	runtime.KeepAlive(allow)
	return bytes
}
