// Command memory measures the memory that one more key takes, its name
// included, and prints it in the format of Go benchmarks.
//
// sparse: a key of 20 characters with ten hits spread over a day. dense: a hit
// every second for a week. Every counter is made for windows of up to a week.
//
// limits: a key that has all its requests of a second, 1 to 10, in use.
package main

import (
	"fmt"
	"log"
	"runtime"
	"strconv"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/bench/machine"
	"github.com/weir-counter/weir/bench/textbook"
	"github.com/weir-counter/weir/bench/traffic"
)

const (
	start = 1_700_000_000
	week  = 7 * traffic.Day
)

// keyed counts hits of many keys.
type keyed interface {
	hit(key []byte, at int64)
}

func main() {
	log.SetFlags(0)
	for _, design := range designs() {
		print("sparse", design.name, design.sparseKeys, sparse(design.make(), design.sparseKeys))
		print("dense", design.name, design.denseKeys, dense(design.make(), design.denseKeys))
	}
	printLimits()
}

func print(traffic, design string, keys int, bytes int64) {
	fmt.Printf("BenchmarkMemory/traffic=%s/design=%s %d %.1f B/key\n", traffic, design, keys, float64(bytes)/float64(keys))
}

type design struct {
	name                  string
	make                  func() keyed
	sparseKeys, denseKeys int // so many that they outweigh what there is once
}

func designs() []design {
	all := []design{{"weir", func() keyed { return newWeir() }, 1_000_000, 16}}
	for _, d := range textbook.Designs() {
		keys := map[string]int{"ring": 8, "total": 8, "cached": 8, "tiers": 50_000}[d.Name] // arrays are large
		if keys == 0 {
			keys = 500_000
		}
		all = append(all, design{d.Name, func() keyed { return counters{d, make(map[string]textbook.Counter)} }, keys, 8})
	}
	return all
}

// sparse is the memory of a number of keys.
func sparse(k keyed, keys int) int64 {
	before := machine.Heap()
	var key []byte
	for hit := range traffic.SparseHits {
		for j := range keys {
			i, second := traffic.SparseHit(keys, hit, j)
			key = traffic.AppendSparseKey(key[:0], i)
			k.hit(key, start+second)
		}
	}
	bytes := machine.Heap() - before
	runtime.KeepAlive(k)
	return bytes
}

// dense is the memory of a number of keys that come after a first one, which
// pays for what there is once.
func dense(k keyed, keys int) int64 {
	fill := func(i int) {
		key := strconv.AppendInt([]byte("dense:"), int64(i), 10)
		for at := int64(start); at < start+week; at++ {
			k.hit(key, at)
		}
	}
	fill(0)
	before := machine.Heap()
	for i := range keys {
		fill(i + 1)
	}
	bytes := machine.Heap() - before
	runtime.KeepAlive(k)
	return bytes
}

// counters has a counter of one design for each key. The map's lock is left
// out: it takes no memory to speak of.
type counters struct {
	design textbook.Design
	byKey  map[string]textbook.Counter
}

func (c counters) hit(key []byte, at int64) {
	counter := c.byKey[string(key)]
	if counter == nil {
		counter = c.design.New(week)
		c.byKey[string(key)] = counter
	}
	counter.Hit(at)
}

type weirKeys struct{ engine *weir.Engine }

func newWeir() weirKeys {
	engine, err := weir.New(weir.Config{Clock: weir.EventClock, Retention: week * time.Second, Memory: 8 << 30})
	if err != nil {
		log.Fatal(err)
	}
	return weirKeys{engine}
}

func (w weirKeys) hit(key []byte, at int64) {
	if outcome, err := w.engine.HitAt(time.Unix(at, 0), string(key), 1); err != nil || outcome == weir.TooLate {
		log.Fatalf("hit not counted: outcome %v, %v", outcome, err)
	}
}
