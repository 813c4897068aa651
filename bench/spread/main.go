// Command spread prints how evenly the hash spreads kinds of keys over the
// partitions: the keys of the fullest one, to the mean. Keys that fell by chance
// would give the last column.
package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"slices"

	"github.com/weir-counter/weir/internal/engine"
)

const keys = 1_000_000

func main() {
	log.SetFlags(0)
	fmt.Printf("| %d keys | 16 partitions | 256 | 4096 |\n|---|---|---|---|\n", keys)
	for _, kind := range kinds() {
		fmt.Printf("| %s |", kind.name)
		for _, partitions := range []int{16, 256, 4096} {
			fmt.Printf(" %.3f |", fullest(partitions, kind.partition(partitions)))
		}
		fmt.Println()
	}
}

// kind is a way to name keys.
type kind struct {
	name      string
	partition func(partitions int) func(i int) int
}

func kinds() []kind {
	var all []kind
	for _, k := range []struct {
		name string
		key  func(i int) string
	}{
		{"e-mail addresses `user:name.123@example.com`", func(i int) string { return fmt.Sprintf("user:%s.%d@example.com", names[i%len(names)], i) }},
		{"sequential ids `user:123`", func(i int) string { return fmt.Sprint("user:", i) }},
		{"ids of a fixed width `user:00000123`", func(i int) string { return fmt.Sprintf("user:%08d", i) }},
		{"URLs `url:/shop/12/item/345?page=6`", func(i int) string { return fmt.Sprintf("url:/shop/%d/item/%d?page=%d", i%97, i/97, i%7) }},
		{"IPv4 addresses `ip:10.1.2.3`", func(i int) string { return fmt.Sprintf("ip:10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }},
	} {
		all = append(all, kind{k.name, func(partitions int) func(int) int {
			e, err := engine.New(engine.Config{Partitions: partitions})
			if err != nil {
				log.Fatal(err)
			}
			defer e.Close()
			return func(i int) int { return e.Keyspace().PartitionOf(k.key(i)) }
		}})
	}
	return append(all, kind{"by chance", func(partitions int) func(int) int {
		random := rand.New(rand.NewPCG(1, 2))
		return func(int) int { return random.IntN(partitions) }
	}})
}

var names = []string{"ann", "bob", "carol", "dave", "eve", "frank", "grace", "heidi"}

func fullest(partitions int, partition func(i int) int) float64 {
	load := make([]int, partitions)
	for i := range keys {
		load[partition(i)]++
	}
	return float64(slices.Max(load)) * float64(partitions) / keys
}
