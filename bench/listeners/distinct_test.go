package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Random PFADD, PFCOUNT and PFMERGE with few ids have the same replies from Weir and from redis-server.
func TestDistinctAgainstRedis(t *testing.T) {
	mine, theirs := redis.NewClient(&redis.Options{Addr: open(t)}), redis.NewClient(&redis.Options{Addr: oracle(t)})
	defer mine.Close()
	defer theirs.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	var log []string
	for i := range 2000 {
		key := func() any { return fmt.Sprint(i/200, "-", rng.IntN(4)) }
		id := func() any { return fmt.Sprint("id", rng.IntN(60)) }
		command := []any{"PFADD", key(), id(), id()}
		switch rng.IntN(5) {
		case 0:
			command = []any{"PFCOUNT", key()}
		case 1:
			command = []any{"PFCOUNT", key(), key(), key()}
		case 2:
			command = []any{"PFMERGE", key(), key(), key()}
		}
		log = append(log, fmt.Sprint(command...))
		a, aErr := mine.Do(t.Context(), command...).Result()
		b, bErr := theirs.Do(t.Context(), command...).Result()
		if !sameReply(command[0], a, aErr, b, bErr) {
			t.Fatalf("%v: %v %v, and Redis %v %v, after\n%s", command, a, aErr, b, bErr, strings.Join(log[max(0, len(log)-20):], "\n"))
		}
	}
}
