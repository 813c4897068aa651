package resp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
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
		PFADD a b -> -ERR unknown command 'PFADD': Weir counts hits, not distinct values: keep those in Redis
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

// Decisions are those of redis_rate's script at any time, but where its rounding decides.
func TestAllowNAgainstAModel(t *testing.T) {
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
			left, retry, reset := allowN(&tat, now.Seconds(), l[0], l[1], l[2], float64(cost))
			got := c.do(fmt.Sprintf("EVALSHA %s 1 a %g %g %g %d", shaAllowN, l[0], l[1], l[2], cost))
			var allowed, remaining int64
			var gotRetry, gotReset quoted
			if _, err := fmt.Sscanf(strings.Trim(got, "[]"), "%d %d %v %v", &allowed, &remaining, &gotRetry, &gotReset); err != nil {
				t.Fatal(got, err)
			}
			tat = now.Seconds() + float64(gotReset) // so that rounding does not add up
			const rounding = 1e-5
			if math.Abs(left-math.Round(left)) < rounding {
				continue
			}
			compared++
			wantAllowed, wantRemaining := cost, int64(left)
			if left < 0 {
				wantAllowed, wantRemaining = 0, 0
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
		EVALSHA ` + shaFlexible + ` 1 c 1 0 -> -ERR invalid expire time
		EVALSHA ` + shaFlexible + ` 1 c x 10 -> -ERR value is not an integer or out of range
		EXISTS c -> 0

		EVALSHA ` + shaFixed + ` 1 w 3 60000 2 -> [2 3]
		PTTL w -> 60000
		EVALSHA ` + shaFixed + ` 2 w "" 3 60000 2 -> [4 3]
		EVALSHA ` + shaFixedLeft + ` 1 w 3 -> [-1 3]
		SET most 10 -> OK
		EVALSHA ` + shaFixedLeft + ` 2 w most 3 -> [6 10]
		EVALSHA ` + shaFixedLeft + ` 2 w nothing 3 -> [-1 3]
		EVALSHA ` + shaFixed + ` 1 w 3 9223372036854775807 1 -> -ERR invalid expire time

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
		EVALSHA ` + shaBucket + ` 1 d 9007199254740992 9007199254740992 1 1 9007199254740992 -> -ERR invalid expire time
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
		EVALSHA ` + shaReset + ` 1 "a[b]:*" "" -> -ERR resetUsedTokens takes identifiers without * ? [ \
		EVALSHA ` + shaReset + ` 1 * "" -> -ERR resetUsedTokens takes identifiers without * ? [ \
	`)
}
