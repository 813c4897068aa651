package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Random commands on counters have the same replies from Weir and from redis-server.
func TestCountersAgainstRedis(t *testing.T) {
	mine, theirs := redis.NewClient(&redis.Options{Addr: open(t)}), redis.NewClient(&redis.Options{Addr: oracle(t)})
	defer mine.Close()
	defer theirs.Close()
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 2))
	later := time.Now().Unix() + 10_000
	var log []string
	for range 5000 {
		command := randomCommand(rng, later)
		log = append(log, fmt.Sprint(command...))
		a, aErr := mine.Do(t.Context(), command...).Result()
		b, bErr := theirs.Do(t.Context(), command...).Result()
		if !sameReply(command[0], a, aErr, b, bErr) {
			t.Fatalf("%v: %v %v, and Redis %v %v, after\n%s", command, a, aErr, b, bErr, strings.Join(log[max(0, len(log)-20):], "\n"))
		}
	}
}

// randomCommand is one on a few keys. Times at which counters expire are far apart, so that it does
// not matter when a server is asked.
func randomCommand(rng *rand.Rand, later int64) []any {
	pick := func(words ...any) any { return words[rng.IntN(len(words))] }
	key := func() any { return pick("a", "b", "c", "d") }
	with := func(command []any, options ...any) []any {
		if option := pick(append(options, nil)...); option != nil {
			command = append(command, option)
		}
		return command
	}
	number := func() any {
		return pick(0, 1, -1, 5, 100, int64(1)<<62, "x", "01", "-0", "+1", "9223372036854775807", "9223372036854775808")
	}
	at := func() int64 { return later + int64(rng.IntN(3))*1000 }
	switch rng.IntN(18) {
	case 0:
		return []any{pick("INCR", "DECR"), key()}
	case 1:
		return []any{pick("INCRBY", "DECRBY"), key(), number()}
	case 2:
		return []any{"GET", key()}
	case 3:
		return []any{"MGET", key(), key()}
	case 4:
		return []any{"EXISTS", key(), key()}
	case 5:
		return []any{"DEL", key()}
	case 6:
		return with(with([]any{"EXPIREAT", key(), at()}, "NX", "XX", "GT", "LT", "ZZ"), "NX", "XX", "GT", "LT")
	case 7:
		return with(with([]any{"PEXPIREAT", key(), at() * 1000}, "NX", "XX", "GT", "LT"), "XX")
	case 12:
		return []any{pick("SETNX", "GETSET"), key(), pick(1, 7, -3)}
	case 13:
		return []any{pick("SETEX", "PSETEX"), key(), pick(200, 300, 0, -1, "x"), pick(1, 7)}
	case 14:
		return with(with([]any{"GETEX", key()}, "PERSIST", "ZZ"), "EX")
	case 15:
		return []any{"GETEX", key(), pick("EX", "EXAT"), pick(5_000_000_000, 0, "x")}
	case 16:
		return []any{pick("GETDEL", "PERSIST", "TYPE"), pick(key(), "")}
	case 17:
		return []any{pick("UNLINK", "INCR"), pick("", key())}
	case 8:
		return with([]any{"EXPIRE", key(), pick(100, 200, -1, "x", "9223372036854775807")}, "NX", "XX")
	case 9:
		return []any{pick("TTL", "PTTL"), key()}
	case 10:
		return with(with([]any{"SET", key(), pick(1, 7, -3)}, "NX", "XX"), "GET", "KEEPTTL", "NX")
	}
	return []any{"SET", key(), 5, pick("EX", "PX", "EXAT", "PXAT"), pick(0, -5, 5_000_000_000_000, "x")}
}

// sameReply compares replies, times to within a second, and errors by their kinds.
func sameReply(command, a any, aErr error, b any, bErr error) bool {
	if aErr != nil || bErr != nil {
		kind := func(err error) string {
			if err == nil || errors.Is(err, redis.Nil) {
				return fmt.Sprint(err)
			}
			word, _, _ := strings.Cut(err.Error(), " ")
			return word
		}
		return kind(aErr) == kind(bErr)
	}
	n, isNumber := a.(int64)
	if m, both := b.(int64); isNumber && both && n > 0 {
		switch command {
		case "TTL":
			return max(n-m, m-n) <= 1
		case "PTTL":
			return max(n-m, m-n) < 1000
		}
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}
