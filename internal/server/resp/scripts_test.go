package resp

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
)

// The SHA-1 of scripts, by what they do.
const (
	shaAllowN      = "f52a5b566060d79fd321d695df55bc918339c4aa"
	shaAllowAtMost = "054143318f521948424aa25df61d7f7ba835a9d7"
	shaTraefik     = "3d93177e9b9a18f241edddc8d7e7fa1c47ae4eb6"
	shaFlexible    = "a1de965f42e177aa339706bd580f049065eca79a"
	shaValkey      = "0aa93fe6a34317527000a66828426c0ae2104618"
	shaFixed       = "b2efc02798c8e9b471a10f9b1d5745db89923ff3"
	shaFixedLeft   = "823cb2a5a902d69681244f5e28e5ebb8f2a89edd"
	shaSliding     = "74740bb3d7792848093cdef586b6b6037c455fd6"
	shaSlidingLeft = "7ca36169e0fc9caedd81b4eef8e99854c157f9b5"
	shaBucket      = "d60be5bd3d83482ae229309f1f7425424f891204"
	shaBucketLeft  = "40daf4a441df736f5c99f8b77bbe176c909e5de4"
	shaCached      = "1861a700bafe96c833a483af6b1c28a8897cfdb0"
	shaCachedLeft  = "eb82f0e853d2fc9a236fa9bfbe704fda6ac2fc36"
	shaReset       = "54bd274ddc59fb3be0f42deee2f64322a10e2b50"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		EVALSHA ` + shaAllowN + ` 1 a 10 10 60 1 -> [1 9 "-1" "6"]
		EVALSHA ` + strings.ToUpper(shaAllowN) + ` 1 a 10 10 60 1 -> [1 8 "-1" "12"]
		EVALSHA aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0 -> -NOSCRIPT No matching script. Please use EVAL.
		EVALSHA short 0 -> -NOSCRIPT No matching script. Please use EVAL.
		SCRIPT EXISTS ` + shaAllowN + ` aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -> [1 0]
		SCRIPT FLUSH -> OK
		SCRIPT FLUSH ASYNC -> OK
		SCRIPT EXISTS ` + shaTraefik + ` -> [1]
		EVALSHA ` + shaAllowN + ` x -> -ERR value is not an integer or out of range
		EVALSHA ` + shaAllowN + ` -1 -> -ERR Number of keys can't be negative
		EVALSHA ` + shaAllowN + ` 2 a -> -ERR Number of keys can't be greater than number of args
		EVALSHA ` + shaAllowN + ` 1 a 10 10 60 -> -ERR the script of go-redis/redis_rate v9 and v10 (Allow, AllowN, AllowAtMost) was sent with too few keys or arguments
		EVALSHA ` + shaAllowN + ` 0 10 10 60 1 1 -> -ERR the script of go-redis/redis_rate v9 and v10 (Allow, AllowN, AllowAtMost) was sent with too few keys or arguments
		EVALSHA ` + shaAllowN + ` 1 "" 10 10 60 1 -> -ERR invalid_key: the key is empty
		EVALSHA ` + shaAllowN + ` 1 a 10 0 60 1 -> -ERR invalid_count: rate of 0: must be a whole number from 1
		EVALSHA ` + shaAllowN + ` 1 a 10 10 x 1 -> -ERR invalid_parameter: argument x of a script: must be a number from 0
		EVALSHA ` + shaAllowN + ` 1 a 10 10 0 1 -> -ERR invalid_limit: period of 0 s: must be more than 0
		EVALSHA ` + shaAllowN + ` 1 a 10 10 60 -1 -> -ERR invalid_count: cost of -1: must be a whole number from 0
		SCRIPT KILL -> -ERR syntax error: SCRIPT LOAD text | EXISTS sha1 [sha1 ...] | FLUSH [ASYNC | SYNC]
		MULTI -> OK
		EVALSHA ` + shaAllowN + ` 1 a 10 10 60 1 -> -ERR EVALSHA may wait for other nodes, and no transaction may: send it outside of MULTI
		DISCARD -> OK
	`)
	for _, command := range []string{`EVAL "return 1" 0`, `SCRIPT LOAD "return 1"`} {
		if got := c.do(command); !strings.HasPrefix(got, "-ERR Weir runs no Lua. It knows the scripts of go-redis/redis_rate v9 and v10 (") ||
			!strings.Contains(got, "; the text with the SHA-1 e0e1f9fabfc9d4800c877a703b823ac0578ff8db is none of them") {
			t.Errorf("%s: %s", command, got)
		}
	}
}

func TestRedisRateScripts(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	s.dial().says(`
		EVALSHA ` + shaAllowN + ` 1 a 3 10 60 0 -> [0 3 "-1" "0"]
		EVALSHA ` + shaAllowN + ` 1 a 3 10 60 2 -> [2 1 "-1" "12"]
		EVALSHA ` + shaAllowN + ` 1 a 3 10 60 2 -> [0 0 "6" "12"]
		EVALSHA ` + shaAllowN + ` 1 a 3 10 60 5 -> [0 0 "24" "12"]
		EVALSHA ` + shaAllowAtMost + ` 1 a 3 10 60 0 -> [0 1 "-1" "12"]
		EVALSHA ` + shaAllowAtMost + ` 1 a 3 10 60 5 -> [1 0 "-1" "18"]
		EVALSHA ` + shaAllowAtMost + ` 1 a 3 10 60 5 -> [0 0 "6" "18"]
		EVALSHA ` + shaAllowAtMost + ` 1 a 3 10 60 0 -> [0 0 "6" "18"]
		EVALSHA ` + shaAllowN + ` 1 half 1 1 0.5 1 -> [1 0 "-1" "0.5"]
		EVALSHA ` + shaAllowN + ` 1 none 0 10 60 0 -> [0 0 "-1" "0"]
		EVALSHA ` + shaAllowN + ` 1 none 0 10 60 2 -> [0 0 "12" "0"]
		EVALSHA ` + shaAllowAtMost + ` 1 none 0 10 60 2 -> [0 0 "6" "0"]
		COUNT limit:inline/gcra/1m:denied 5m -> [2 2 2 1 1769860800000]
	`)
}

// allowN is the script of redis_rate in words of its own, at a time in seconds. left is what the bucket has after it.
func allowN(tat *float64, now float64, burst, rate, period, cost float64) (left, retry, reset float64) {
	interval := period / rate
	at := max(*tat, now)
	next := at + interval*cost
	left = (now - (next - interval*burst)) / interval
	if left < 0 {
		return left, -left * interval, at - now
	}
	*tat = next
	return left, -1, next - now
}

// allowAtMost is allowN of up to cost: the last of a bucket is taken with its fraction.
func allowAtMost(tat *float64, now float64, burst, rate, period, cost float64) (allowed, left, retry, reset float64) {
	interval := period / rate
	at := max(*tat, now)
	free := (now - (at - interval*burst)) / interval
	if free < 1 {
		return 0, free, interval - free*interval, at - now
	}
	allowed = min(cost, free)
	*tat = at + interval*allowed
	return allowed, free - allowed, -1, *tat - now
}

// Decisions are those of redis_rate's scripts at any time, but where their rounding decides.
func TestRedisRateAgainstAModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, l := range [][3]float64{{10, 10, 1}, {5, 10, 60}, {1, 3, 1}, {100, 7, 60}} { // burst, rate, period
		s := newTestServer(t, Config{}, "")
		c := s.dial()
		tat, interval := 0.0, l[2]/l[1]
		now := time.Duration(0)
		compared := 0
		for range 500 {
			now += time.Duration(rng.Float64() * 2 * interval * float64(time.Second)).Truncate(time.Millisecond)
			s.passed.Store(int64(now))
			cost := int64(rng.IntN(4))
			atMost := rng.IntN(2) == 0
			var left, retry, reset, taken float64
			sha := shaAllowN
			if atMost {
				sha = shaAllowAtMost
				taken, left, retry, reset = allowAtMost(&tat, now.Seconds(), l[0], l[1], l[2], float64(cost))
			} else {
				left, retry, reset = allowN(&tat, now.Seconds(), l[0], l[1], l[2], float64(cost))
			}
			got := c.do(fmt.Sprintf("EVALSHA %s 1 a %g %g %g %d", sha, l[0], l[1], l[2], cost))
			var allowed, remaining int64
			var gotRetry, gotReset quoted
			if _, err := fmt.Sscanf(strings.Trim(got, "[]"), "%d %d %v %v", &allowed, &remaining, &gotRetry, &gotReset); err != nil {
				t.Fatal(got, err)
			}
			tat = now.Seconds() + float64(gotReset) // so that rounding does not add up
			const rounding = 1e-5
			if free := left + taken; math.Abs(free-math.Round(free)) < rounding {
				continue
			}
			compared++
			wantAllowed, wantRemaining := cost, int64(left)
			if left < 0 {
				wantAllowed, wantRemaining = 0, 0
			}
			if atMost {
				wantAllowed = int64(taken)
			}
			if allowed != wantAllowed || remaining != wantRemaining || math.Abs(float64(gotRetry)-retry) > rounding || math.Abs(float64(gotReset)-reset) > rounding {
				t.Fatalf("at %v, limit %v, cost %d: %s, want %d %d %g %g", now, l, cost, got, wantAllowed, wantRemaining, retry, reset)
			}
		}
		if compared < 50 {
			t.Errorf("limit %v: compared %d decisions", l, compared)
		}
	}
}

// quoted is a number that is written as a text.
type quoted float64

// Scan implements fmt.Scanner.
func (q *quoted) Scan(state fmt.ScanState, _ rune) error {
	word, err := state.Token(true, nil)
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(strings.Trim(string(word), `"`), 64)
	*q = quoted(f)
	return err
}

func TestTraefikScript(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		EVALSHA ` + shaTraefik + ` 1 a 0.0001 2 2 1769860800000000 5000 -> ["true" "0" "1"]
		EVALSHA ` + shaTraefik + ` 1 a 0.0001 2 2 1769860800000000 5000 -> ["true" "0" "0"]
		EVALSHA ` + shaTraefik + ` 1 a 0.0001 2 2 1769860800000000 5000 -> ["true" "10000" "0"]
		EVALSHA ` + shaTraefik + ` 1 b 1.6666666666666667e-06 1 1 1 300000 -> ["true" "0" "0"]
		EVALSHA ` + shaTraefik + ` 1 b 1.6666666666666667e-06 1 1 1 300000 -> ["true" "600000" "0"]
		COUNT limit:inline/gcra/1m:denied 5m -> [1 1 1 1 1769860800000]
	`)
	s.passed.Store(int64(9 * time.Millisecond))
	c.says(`
		EVALSHA ` + shaTraefik + ` 1 a 0.0001 2 2 9999999999999999 5000 -> ["true" "5001" "0.9"]
		EVALSHA ` + shaTraefik + ` 1 a 0 2 2 1 5000 -> -ERR invalid_limit: rate of 0 per microsecond: must be more than 0
		EVALSHA ` + shaTraefik + ` 1 a 5 2 2 1 5000 -> -ERR invalid_limit: n of 5000000 per 1s: must be 1 to 1000000, a million per second
		EVALSHA ` + shaTraefik + ` 1 a 0.0001 0 2 1 5000 -> -ERR invalid_count: burst of 0: must be a whole number from 1
	`)
}

func TestScriptsOfCounters(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		EVALSHA ` + shaFlexible + ` 1 a 2 60 5 60 -> [2 60000]
		EVALSHA ` + shaFlexible + ` 1 a 1 90 5 60 -> [3 60000]
		GET a -> "3"
		SET b 7 -> OK
		EVALSHA ` + shaValkey + ` 1 b 1 60 -> [8 -1]
		EVALSHA ` + shaFlexible + ` 1 b -2 60 -> [6 60000]
		EVALSHA ` + shaFlexible + ` 1 c 1 0 -> -ERR invalid expire time in 'evalsha' command
		EVALSHA ` + shaFlexible + ` 1 c x 10 -> -ERR value is not an integer or out of range
		EXISTS c -> 0

		EVALSHA ` + shaFixed + ` 1 w 3 60000 2 -> [2 3]
		PTTL w -> 60000
		EVALSHA ` + shaFixed + ` 2 w "" 3 60000 2 -> [4 3]
		EVALSHA ` + shaFixedLeft + ` 1 w 3 -> [-1 3]
		SET most 10 -> OK
		EVALSHA ` + shaFixedLeft + ` 2 w most 3 -> [6 10]
		EVALSHA ` + shaFixedLeft + ` 2 w nothing 3 -> [-1 3]
		EVALSHA ` + shaFixed + ` 1 w 3 9223372036854775807 1 -> -ERR invalid expire time in 'evalsha' command

		SET w:1 8 -> OK
		EVALSHA ` + shaSliding + ` 2 w:2 w:1 10 2250 1000 1 -> [3 10]
		PTTL w:2 -> 3000
		EVALSHA ` + shaSliding + ` 2 w:2 w:1 10 2250 1000 3 -> [0 10]
		EVALSHA ` + shaSliding + ` 2 w:2 w:1 10 2250 1000 1 -> [-1 10]
		EVALSHA ` + shaSliding + ` 3 w:2 w:1 most 7 2500 1000 1 -> [1 10]
		EVALSHA ` + shaSlidingLeft + ` 3 w:2 w:1 "" 10 2500 1000 -> [1 10]
		EVALSHA ` + shaSliding + ` 2 w:2 w:1 10 2500 1000 -1 -> [2 10]
		EVALSHA ` + shaSliding + ` 2 w:2 w:1 10 2500 0 1 -> -ERR a sliding window needs a time from 0 and a window from 1 ms
	`)
	s.now.Add(3000)
	c.says("EXISTS w:2 -> 0\n")
}

// The bucket of @upstash/ratelimit, by the time of its client; its cached window; and what resets both.
func TestTokenBucketScript(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		EVALSHA ` + shaBucketLeft + ` 1 b 10 -> [10 -1 10]
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 50000 4 -> [6 51000 10]
		PTTL b -> 2000
		PTTL b:refilledAt -> 2000
		EVALSHA ` + shaBucket + ` 2 b "" 10 1000 3 50999 7 -> [-1 51000 10]
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 50999 6 -> [0 51000 10]
		PTTL b -> 4000
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 50999 1 -> [-1 51000 10]
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 52500 1 -> [5 53000 10]
		EVALSHA ` + shaBucketLeft + ` 1 b 10 -> [5 52000 10]
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 52500 -9 -> [14 53000 10]
		PTTL b -> 2000
		EVALSHA ` + shaBucket + ` 1 b 10 1000 3 53000 0 -> [10 54000 10]
		SET most 2 -> OK
		EVALSHA ` + shaBucket + ` 2 b most 10 1000 3 54000 1 -> [1 55000 2]
		EVALSHA ` + shaBucketLeft + ` 2 b most 10 -> [1 54000 2]
		EVALSHA ` + shaBucket + ` 1 c 10 1000 3 1 -5 -> [15 1001 10]
		PTTL c -> -1
		EVALSHA ` + shaBucket + ` 1 d 10 0 3 1 1 -> -ERR a token bucket needs an interval from 1 ms, a refill of 1 token or more, and a time from 0
		EVALSHA ` + shaBucket + ` 1 d 9007199254740993 1000 3 1 1 -> -ERR value is not an integer or out of range
		EVALSHA ` + shaBucket + ` 1 d 9007199254740992 9007199254740992 1 1 9007199254740992 -> -ERR invalid expire time in 'evalsha' command
		EVALSHA ` + shaBucket + ` 1 e 9007199254740992 1000 9007199254740992 1 -9007199254740992 -> -ERR increment or decrement would overflow
		EXISTS d e -> 0

		EVALSHA ` + shaCachedLeft + ` 1 w:7 "" -> 0
		EVALSHA ` + shaCached + ` 1 w:7 60000 2 -> 2
		PTTL w:7 -> 60000
		EVALSHA ` + shaCachedLeft + ` 1 w:7 "" -> "2"
		SET w:8 1 -> OK
		SET w8 1 -> OK
		EVALSHA ` + shaReset + ` 1 w:* "" -> nil
		EXISTS w:7 w:8 w8 -> 1
		EVALSHA ` + shaReset + ` 1 b "" -> nil
		EXISTS b b:refilledAt -> 0
		EVALSHA ` + shaReset + ` 1 "[cx]" "" -> nil
		EXISTS c c:refilledAt most -> 1
		EVALSHA ` + shaReset + ` 1 * "" -> nil
		DBSIZE -> 0
	`)
}

// Fixed windows of other libraries: what they add, when the window begins, and what they reply.
func TestWindowScripts(t *testing.T) {
	t.Parallel()
	const (
		express3, express6, expressGet = "3f424a504987d231baa2e19159bb5def8ad32f87", "895b92e1712734e1b464999be23953485475357b", "6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a"
		fastify9, fastify11, read      = "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", "b8a19d47785922bb04e7a9fdb49e90d89be1b8af", "4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc"
		ulule, peek                    = "f74233f556d3f99c50b61169cf8aa8d5deb63fb2", "566f5c6a17e5fddb9a10bf389f754edd0d899c61"
		limits, clear                  = "628bd136a573a06b346879695681af12ccef300f", "f2994557f1daca13bfef97c2a31ca4b174e031ca"
		throttled, extends             = "ebd682e30de074a6919bde872b507734c7c3ebe5", "e58c658ffd9121cefbe4126943acb7e66217b298"
	)
	s := newTestServer(t, Config{}, "")
	c := s.dial()
	c.says(`
		EVALSHA ` + express3 + ` 1 a 0 60000 -> [1 60000]
		EVALSHA ` + expressGet + ` 1 a -> ["1" 60000]
		EVALSHA ` + expressGet + ` 1 nothing -> [nil -2]
		PERSIST a -> 1
		EVALSHA ` + express3 + ` 1 a 0 60000 -> [2 60000]
		PERSIST a -> 1
		EVALSHA ` + express6 + ` 1 a 60000 -> [1 60000]
		EVALSHA ` + express6 + ` 1 a 90000 -> [2 60000]
		EVALSHA ` + express3 + ` 1 a 1 90000 -> [3 90000]
		EVALSHA ` + express6 + ` 1 a 0 -> -ERR invalid expire time in 'evalsha' command

		EVALSHA ` + fastify9 + ` 1 f 60000 1 0 false -> [1 60000 nil]
		EVALSHA ` + fastify9 + ` 1 f 60000 1 0 false -> [2 60000 1]
		EVALSHA ` + fastify9 + ` 1 f 90000 1 -1 true -> [3 90000 nil]
		EVALSHA ` + fastify11 + ` 1 g 1000 2 false true -> [1 1000]
		EVALSHA ` + fastify11 + ` 1 g 1000 2 false true -> [2 1000]
		EVALSHA ` + fastify11 + ` 1 g 1000 2 false true -> [3 1000]
		EVALSHA ` + fastify11 + ` 1 g 1000 2 false true -> [4 2000]
		EVALSHA ` + fastify11 + ` 1 g 1000 2 false true -> [5 4000]
		EVALSHA ` + fastify11 + ` 1 g 9007199254740990 2 false true -> [6 9007199254740991]
		EVALSHA ` + read + ` 1 g -> [6 9007199254740991]
		EVALSHA ` + read + ` 1 nothing -> [0 0]

		EVALSHA ` + ulule + ` 1 u 3 60000 -> [3 60000]
		EVALSHA ` + ulule + ` 1 u 1 60000 -> [4 60000]
		EVALSHA ` + peek + ` 1 u -> [4 60000]
		PERSIST u -> 1
		EVALSHA ` + peek + ` 1 u -> [4 -1]
		EVALSHA ` + read + ` 1 u -> [4 0]

		EVALSHA ` + limits + ` 1 L/1 60 2 -> 2
		EVALSHA ` + limits + ` 1 L/1 60 1 -> 3
		TTL L/1 -> 60
		SET L2 1 -> OK
		EVALSHA ` + clear + ` 1 L/* -> 1
		EXISTS L/1 L2 -> 1

		EVALSHA ` + throttled + ` 1 t 1 2 60 -> -ERR key does not exist
		SETNX t 7 -> 1
		EVALSHA ` + throttled + ` 1 t 1 2 60 -> 0
		EVALSHA ` + throttled + ` 1 t 7 -9223372036854775808 60 -> 1
		GET t -> "-9223372036854775808"
		TTL t -> 60

		EVALSHA ` + extends + ` 1 x 1 60 2 30 -> [1 60000]
		EVALSHA ` + extends + ` 1 x 1 60 2 30 -> [2 60000]
		EVALSHA ` + extends + ` 1 x 1 60 2 30 -> [3 90000]
		EVALSHA ` + extends + ` 1 x 1 60 2 9223372036854775 -> -ERR invalid expire time in 'evalsha' command
		EVALSHA c2fdffe4a536a8702377ddcc0c4aa92fbfc65f7e 1 y 3 60 2 30 -> [3 60000]
		EVALSHA c2fdffe4a536a8702377ddcc0c4aa92fbfc65f7e 1 y 2 60 2 30 -> [5 120000]
		EVALSHA c2fdffe4a536a8702377ddcc0c4aa92fbfc65f7e 1 y 2 60 -> -ERR the script of rate-limiter-flexible 2 to 11 (RateLimiterRedis, RateLimiterValkey) was sent with too few keys or arguments
		INCRBY x 9223372036854775804 -> 9223372036854775807
		EVALSHA ` + extends + ` 1 x 1 60 2 30 -> -ERR increment or decrement would overflow
	`)
	s.now.Add(60_000)
	c.says("EVALSHA " + express3 + " 1 a 0 60000 -> [4 30000]\n")
	s.now.Add(30_000)
	c.says("EVALSHA " + express3 + " 1 a 0 60000 -> [1 60000]\n")
}

// Sliding windows that keep times: of one unit of a script's own, by the clock of who asks.
func TestLogScripts(t *testing.T) {
	t.Parallel()
	const (
		async, acquire   = "ad00ff6f099013f2aea94ed48c220cbf616c6a07", "741eab638ba93ed71020bb821c45c022d0fa02c4"
		moving5, moving3 = "ad795214f59fe26d6fdec07973836dd16586f5ec", "3136f0028c572d2959b5cdc5ec15b287fab6a9ff"
	)
	s := newServerOf(t, engine.Config{LimitMemory: 256 << 10}, Config{}, "", nil, admit.Cluster{})
	c := s.dial()
	c.says(`
		EVALSHA ` + async + ` 1 a 10000.5 4000 2 1 -> [2 14 2]
		EXISTS a -> 0
		EVALSHA ` + async + ` 1 a 10000.5 4000 2 0 -> [2 14 2]
		PTTL a -> 4000
		TYPE a -> zset
		EVALSHA ` + async + ` 1 a 10000.5 4000 2 0 -> [1 14 2]
		EVALSHA ` + async + ` 1 a 9000 4000 2 0 -> [1 14 2]
		EVALSHA ` + async + ` 1 a 12000 4000 2 0 -> [0 13 2]
		EVALSHA ` + async + ` 1 a 13000 4000 2 0 -> [1 14 2]
		EVALSHA ` + async + ` 1 a 13001 4000 2 0 -> [0 14 2]
		INCR a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GET a -> -WRONGTYPE Operation against a key holding the wrong kind of value
		GETSET a 1 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		MGET a b -> [nil nil]
		SCAN 0 COUNT 2000 TYPE zset -> ["0" ["a"]]
		SET n 1 -> OK
		EVALSHA ` + async + ` 1 n 1 4000 2 0 -> -WRONGTYPE Operation against a key holding the wrong kind of value
		EVALSHA ` + async + ` 1 a x 4000 2 0 -> -ERR invalid_parameter: argument x of a script: must be a number from 0
		SET a 1 -> OK
		GETDEL a -> "1"

		EVALSHA ` + acquire + ` 1 l 100.25 3 60 2 -> 1
		EVALSHA ` + acquire + ` 1 l 110 3 60 2 -> nil
		EVALSHA ` + acquire + ` 1 l 120 3 60 1 -> 1
		EVALSHA ` + acquire + ` 1 l 120 3 60 4 -> nil
		EVALSHA ` + moving5 + ` 1 l 100 3 -> ["100.25" 3]
		EVALSHA ` + moving3 + ` 1 l 100 3 -> [120 3]
		EVALSHA ` + moving5 + ` 1 l 121 3 -> nil
		EVALSHA ` + moving3 + ` 1 l 121 3 -> []
		EVALSHA ` + acquire + ` 1 l 160.5 3 60 2 -> 1
		EVALSHA ` + moving5 + ` 1 l 0 3 -> ["120" 3]
		TTL l -> 60
		EVALSHA ` + acquire + ` 1 large 1 32769 60 32769 -> -ERR a log of times has at most 32768: use the command ALLOW for such limits
		EVALSHA ` + acquire + ` 1 large 1 32768 60 32768 -> -OOM the memory for counters is used up by counters that have not expired: start the server with a larger --limit-memory, or let counters expire sooner
		EVALSHA ` + moving5 + ` 1 large 0 65536 -> nil
		DBSIZE -> 2
		FLUSHALL -> OK
	`)
	if st := s.counters.Stats(); st.Bytes != 0 || st.Keys != 0 {
		t.Errorf("nothing is left but %+v", st)
	}
}

// A text that differs in its spaces alone is known, and then by its SHA-1 too, unless it has comments: these end with their lines.
func TestSingleSpaced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"  a\n\tb  c\r\n": "a b c",
		"a -- why\n b":    "a -- why\n b",
	} {
		if got := string(singleSpaced([]byte(text))); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	table := NewScriptTable()
	known := &Script{}
	table.bySHA[sha1.Sum([]byte("return 1"))] = known
	spaced := []byte("return\n  1")
	sha := sha1.Sum(spaced)
	digits := []byte(hex.EncodeToString(sha[:]))
	if table.BySHA(digits) != nil {
		t.Error("known before it was sent")
	}
	if got, err := table.ByText(spaced); got != known || err != nil {
		t.Error(got, err)
	}
	if table.BySHA(digits) != known {
		t.Error("not known by its SHA-1")
	}
	for n := range 2 * maxSpaced {
		_, _ = table.ByText([]byte("return" + strings.Repeat(" ", n+1) + "1"))
	}
	if len(table.spaced) != maxSpaced {
		t.Errorf("%d texts are kept", len(table.spaced))
	}
}
