package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// both are clients of Weir and of Redis.
func both(t *testing.T) (mine, theirs *redis.Client) {
	t.Helper()
	mine, theirs = redis.NewClient(&redis.Options{Addr: open(t)}), redis.NewClient(&redis.Options{Addr: oracle(t)})
	t.Cleanup(func() {
		mine.Close()
		theirs.Close()
	})
	return mine, theirs
}

// redis_rate decides the same on Weir and on Redis, of limits whose tokens do not come back while the test runs.
func TestRedisRate(t *testing.T) {
	t.Parallel()
	mine, theirs := both(t)
	a, b := redis_rate.NewLimiter(mine), redis_rate.NewLimiter(theirs)
	rng := rand.New(rand.NewPCG(1, 2))
	limits := []redis_rate.Limit{redis_rate.PerHour(20), redis_rate.PerHour(1), {Rate: 7, Burst: 40, Period: time.Hour}, {Rate: 1, Burst: 3, Period: 30 * time.Minute}}
	for i := range limits {
		for n := range 4 { // the first of a key: Redis rounds what remains down by one at times
			if _, err := b.Allow(t.Context(), fmt.Sprint(i, n), limits[i]); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Allow(t.Context(), fmt.Sprint(i, n), limits[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for step := range 1500 {
		i := rng.IntN(len(limits))
		key, n := fmt.Sprint(i, rng.IntN(4)), rng.IntN(5)
		ask, name := redis_rate.Limiter.AllowN, "AllowN"
		if rng.IntN(3) == 0 {
			ask, name = redis_rate.Limiter.AllowAtMost, "AllowAtMost"
		}
		got, err := ask(*a, t.Context(), key, limits[i], n)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ask(*b, t.Context(), key, limits[i], n)
		if err != nil {
			t.Fatal(err)
		}
		const slack = 20 * time.Second // at which the two were asked, at most, and what they lost by it
		if got.Allowed != want.Allowed || got.Remaining != want.Remaining || (got.RetryAfter-want.RetryAfter).Abs() > slack || (got.ResetAfter-want.ResetAfter).Abs() > slack ||
			(got.RetryAfter == -1) != (want.RetryAfter == -1) {
			t.Fatalf("step %d, %s of %d for %s, %v: weir %+v, redis %+v", step, name, n, key, limits[i], got, want)
		}
	}
}

// Reset of redis_rate gives the whole burst back on both.
func TestRedisRateReset(t *testing.T) {
	t.Parallel()
	mine, theirs := both(t)
	limit := redis_rate.PerHour(3)
	for name, c := range map[string]*redis.Client{"weir": mine, "redis": theirs} {
		l := redis_rate.NewLimiter(c)
		for _, step := range []struct {
			reset     bool
			n         int
			allowed   int
			remaining int
		}{{n: 3, allowed: 3}, {n: 1}, {reset: true, n: 1, allowed: 1, remaining: 2}, {n: 3, remaining: 0}, {reset: true, n: 3, allowed: 3}} {
			if step.reset {
				if err := l.Reset(t.Context(), "a"); err != nil {
					t.Fatal(err)
				}
			}
			r, err := l.AllowN(t.Context(), "a", limit, step.n)
			if err != nil || r.Allowed != step.allowed || r.Remaining != step.remaining {
				t.Errorf("%s, %+v: %+v, %v", name, step, r, err)
			}
		}
	}
}

// What redis_rate lets through while tokens come back is the same, to the one that is about to come.
func TestRedisRateWhileTokensComeBack(t *testing.T) {
	t.Parallel()
	mine, theirs := both(t)
	limit := redis_rate.Limit{Rate: 40, Burst: 5, Period: time.Second}
	var admitted [2]int
	began := time.Now()
	for time.Since(began) < 400*time.Millisecond {
		for i, c := range []*redis.Client{mine, theirs} {
			r, err := redis_rate.NewLimiter(c).Allow(t.Context(), "a", limit)
			if err != nil {
				t.Fatal(err)
			}
			admitted[i] += r.Allowed
		}
	}
	most := limit.Burst + int(float64(limit.Rate)*time.Since(began).Seconds())
	if d := admitted[0] - admitted[1]; admitted[0] > most || d > 1 || d < -1 {
		t.Errorf("weir let %d through, redis %d, and the limit is %d", admitted[0], admitted[1], most)
	}
}

// traefik is the release of Traefik whose script is run. Traefik as a module would bring hundreds of others.
const traefik = "github.com/traefik/traefik/v3@v3.7.13"

// traefikScript is the text that Traefik sends to Redis.
func traefikScript(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleDir(t, traefik), "pkg/middlewares/ratelimiter/lua.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "AllowTokenBucketRaw" {
			text, err = strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		}
		return true
	})
	if text == "" || err != nil {
		t.Fatalf("%s has no AllowTokenBucketRaw, %v", traefik, err)
	}
	return text
}

// Traefik's script decides the same on Weir and on Redis. What Traefik does with the reply is that a request is denied
// when its delay is longer than the longest.
func TestTraefik(t *testing.T) {
	t.Parallel()
	mine, theirs := both(t)
	script := redis.NewScript(traefikScript(t))
	ask := func(c *redis.Client, key string, perSecond float64, burst int, longest time.Duration) (admitted bool, delay, tokens float64) {
		t.Helper()
		reply, err := script.Run(t.Context(), c, []string{key}, perSecond/1e6, burst, 100, time.Now().UnixMicro(), longest.Microseconds()).StringSlice()
		if err != nil || len(reply) != 3 || reply[0] != "true" {
			t.Fatalf("%v, %v", reply, err)
		}
		numbers := [2]float64{}
		for i := range numbers {
			if numbers[i], err = strconv.ParseFloat(reply[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		return numbers[0]*1000 <= float64(longest), numbers[0], numbers[1]
	}
	for _, burst := range []int{1, 3, 50} {
		perSecond := 5.0 / 3600
		for step := range 2 * burst {
			key := fmt.Sprint("slow", burst)
			got, delay, tokens := ask(mine, key, perSecond, burst, 500*time.Millisecond)
			want, wantDelay, wantTokens := ask(theirs, key, perSecond, burst, 500*time.Millisecond)
			if got != want || delay-wantDelay > 20e6 || wantDelay-delay > 20e6 || tokens-wantTokens > 0.05 || wantTokens-tokens > 0.05 {
				t.Fatalf("burst %d, step %d: weir %v %g %g, redis %v %g %g", burst, step, got, delay, tokens, want, wantDelay, wantTokens)
			}
		}
	}
	var admitted [2]int
	began := time.Now()
	for time.Since(began) < 400*time.Millisecond {
		for i, c := range []*redis.Client{mine, theirs} {
			if ok, _, _ := ask(c, "fast", 50, 4, 10*time.Millisecond); ok {
				admitted[i]++
			}
		}
	}
	if d := admitted[1] - admitted[0]; d < 0 || d > 2 {
		t.Errorf("weir let %d through and redis %d: as many are due, or one less that redis lets wait", admitted[0], admitted[1])
	}
}

// ulule/limiter decides the same on both.
func TestUluleLimiter(t *testing.T) {
	t.Parallel()
	var limiters [2]*limiter.Limiter
	mine, theirs := both(t)
	for i, c := range []*redis.Client{mine, theirs} {
		store, err := ululeredis.NewStore(c)
		if err != nil {
			t.Fatal(err)
		}
		limiters[i] = limiter.New(store, limiter.Rate{Period: time.Hour, Limit: 8})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 600 {
		key, n := fmt.Sprint("user", rng.IntN(4)), int64(1+rng.IntN(3))
		ask, name := (*limiter.Limiter).Get, "Get"
		switch rng.IntN(8) {
		case 0:
			ask, name = (*limiter.Limiter).Peek, "Peek"
		case 1:
			ask, name = func(l *limiter.Limiter, ctx context.Context, key string) (limiter.Context, error) {
				return l.Increment(ctx, key, n)
			}, "Increment"
		case 2:
			if ask, name = (*limiter.Limiter).Reset, "Reset"; rng.IntN(4) > 0 {
				continue
			}
		}
		var got [2]limiter.Context
		for i, l := range limiters {
			var err error
			if got[i], err = ask(l, t.Context(), key); err != nil {
				t.Fatal(err)
			}
			got[i].Reset /= 600 // in ten minutes
		}
		if d := got[0].Reset - got[1].Reset; d == 1 || d == -1 { // asked around their end
			got[1].Reset = got[0].Reset
		}
		if got[0] != got[1] {
			t.Fatalf("step %d, %s of %s: weir %+v, redis %+v", step, name, key, got[0], got[1])
		}
	}
}

// throttled decides the same on both, by the servers' clocks.
func TestThrottled(t *testing.T) {
	t.Parallel()
	var limiters [2]*throttled.GCRARateLimiterCtx
	mine, theirs := both(t)
	for i, c := range []*redis.Client{mine, theirs} {
		store, err := goredisstore.NewCtx(c, "throttled:")
		if err != nil {
			t.Fatal(err)
		}
		if limiters[i], err = throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerHour(6), MaxBurst: 9}); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 300 {
		key, n := fmt.Sprint("user", rng.IntN(20)), rng.IntN(4)
		var denied [2]bool
		var got [2]throttled.RateLimitResult
		for i, l := range limiters {
			var err error
			if denied[i], got[i], err = l.RateLimitCtx(t.Context(), key, n); err != nil {
				t.Fatal(err)
			}
		}
		const slack = time.Minute // at which the two were asked, at most
		if denied[0] != denied[1] || got[0].Remaining != got[1].Remaining || (got[0].RetryAfter-got[1].RetryAfter).Abs() > slack || (got[0].ResetAfter-got[1].ResetAfter).Abs() > slack {
			t.Fatalf("step %d, %d for %s: weir %v %+v, redis %v %+v", step, n, key, denied[0], got[0], denied[1], got[1])
		}
	}
}
