package weir_test

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir"
)

// The textbook's hit counter: hits of the past five minutes.
func ExampleCounter() {
	var c weir.Counter
	for _, second := range []int64{1, 2, 3} {
		c.HitAt(time.Unix(second, 0), 1)
	}
	hits := func(second int64) uint64 {
		n, _ := c.CountAt(time.Unix(second, 0), 5*time.Minute)
		return n.Estimate
	}
	fmt.Println(hits(4))
	c.HitAt(time.Unix(300, 0), 1)
	fmt.Println(hits(300))
	fmt.Println(hits(301))
	// Output:
	// 3
	// 4
	// 3
}

// Load and rate over the last seconds up to the newest hit.
func ExampleCounter_Load() {
	var c weir.Counter
	load, _ := c.Load(300 * time.Second)
	fmt.Println("empty:", load)
	for _, second := range []int64{1, 2, 2, 3, 150, 301} {
		c.HitAt(time.Unix(second, 0), 1)
	}
	load, _ = c.Load(300 * time.Second)
	fmt.Println("last 300 s:", load)
	load, _ = c.Load(200 * time.Second)
	fmt.Println("last 200 s:", load)
	qps, _ := c.QPS(300 * time.Second)
	fmt.Println("QPS:", qps, qps.Exact())
	// Output:
	// empty: 0
	// last 300 s: 5
	// last 200 s: 2
	// QPS: 0.0166667 true
}

// Late hits go to the second of their own time.
func ExampleCounter_HitAt() {
	var c weir.Counter
	c.HitAt(time.Unix(1000, 0), 1)
	outcome, _ := c.HitAt(time.Unix(900, 0), 5)
	fmt.Println(outcome == weir.Late)
	n, _ := c.CountAt(time.Unix(950, 0), time.Minute)
	fmt.Println(n.Estimate, n.Exact())
	// Output:
	// true
	// 5 true
}

func ExampleEngine() {
	e, err := weir.New(weir.Config{Retention: 7 * 24 * time.Hour, Memory: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()

	e.Hit("url:/home")
	e.Hit("url:/home")
	e.HitN("url:/cart", 3)

	c, _ := e.Count("url:/home", 5*time.Minute)
	fmt.Println("home:", c.Estimate, "exact:", c.Exact())
	all, _ := e.Count(weir.AllKeys, 5*time.Minute)
	fmt.Println("all:", all.Estimate)
	top, _ := e.Top(e.Now(), 5*time.Minute, 1, "url:")
	fmt.Println("top:", top[0].Key, top[0].Estimate)
	// Output:
	// home: 2 exact: true
	// all: 5
	// top: url:/cart 3
}

func ExampleEngine_Series() {
	e, _ := weir.New(weir.Config{Clock: weir.EventClock})
	defer e.Close()
	start := time.Unix(1_700_000_000, 0)
	for i := range 180 {
		e.HitAt(start.Add(time.Duration(i)*time.Second), "page", uint64(1+i/60))
	}
	points, _ := e.Series("page", start.Add(-time.Second), e.Now(), time.Minute)
	for _, p := range points {
		fmt.Print(p.Estimate, " ")
	}
	// Output: 60 120 180
}

// The textbook's allowRequest, at ten a second: never more in any second.
func ExampleLimiter() {
	l, err := weir.NewLimiter(weir.Limit{N: 10, Per: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	admitted := 0
	for range 1000 {
		if l.Allow() {
			admitted++
		}
	}
	fmt.Println(admitted, l.Peek(1).RetryAfter > 0)
	// Output: 10 true
}

// Keys with a limit, by name: another limit of the same name goes on with what they used.
func ExampleEngine_Limit() {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	e, err := weir.New(weir.Config{Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	login, err := e.Limit("login", weir.Limit{N: 2, Per: time.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Println(login.Allow("bob"), login.Allow("bob"), login.Allow("eve"))
	v, err := login.Take("bob", 1)
	if err != nil {
		panic(err) // the memory of limits is full of keys in use
	}
	fmt.Println(v.Allowed, v.Remaining, v.RetryAfter)
	now = now.Add(v.RetryAfter)
	fmt.Println(login.Allow("bob"))
	// Output:
	// true true true
	// false 0 1m0s
	// true
}

// A request whose cost is known only afterwards reserves the most, and gives back what it did not use.
func ExampleKeyedLimit_Reserve() {
	e, err := weir.New(weir.Config{})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	tokens, err := e.Limit("tokens", weir.Limit{N: 1000, Per: time.Hour})
	if err != nil {
		panic(err)
	}
	v, err := tokens.Reserve("team:7", 800, weir.Reservation{ID: "answer-1", Until: time.Now().Add(time.Minute)})
	fmt.Println(v.Allowed, v.Remaining, err)
	used, known, err := tokens.Settle("team:7", "answer-1", 300, false)
	fmt.Println(used, known, err)
	v, err = tokens.Peek("team:7", 1)
	fmt.Println(v.Remaining, err)
	// Output:
	// true 200 <nil>
	// 300 true <nil>
	// 700 <nil>
}

// Several limits, all or none: what one denies takes nothing of the others.
func ExampleEngine_TakeAll() {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	e, err := weir.New(weir.Config{Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	user, err := e.Limit("user", weir.Limit{N: 5, Per: time.Minute})
	if err != nil {
		panic(err)
	}
	address, err := e.Limit("address", weir.Limit{N: 1, Per: time.Minute})
	if err != nil {
		panic(err)
	}
	checks := []weir.Check{{Limit: user, Key: "bob", N: 1}, {Limit: address, Key: "10.0.0.1", N: 1}}
	verdicts := make([]weir.Verdict, len(checks))
	for range 2 {
		allowed, err := e.TakeAll(checks, verdicts)
		if err != nil {
			panic(err)
		}
		fmt.Println(allowed, verdicts[0].Remaining, verdicts[1].Allowed)
	}
	// Output:
	// true 4 true
	// false 4 false
}
