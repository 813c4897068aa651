package main

import (
	"fmt"
	"strings"

	"github.com/weir-counter/weir/bench/traffic"
)

// workload is one task, and how each server is asked for it.
type workload struct {
	name  string
	keys  int  // after Zipf's law
	goal  goal // of Weir, compared with the first of asked
	asked []asked
}

// asked is a command for a key.
type asked struct {
	server  string
	command string // for people
	fewer   int    // how many times fewer commands than of the cheapest; 0: as many
	words   func(key string) []string
	prepare func(key string) [][]string // for each key, before
}

const (
	// zsetLog is the textbook limiter: a log of admissions as a sorted set, of 100 in a minute.
	zsetLog = `local t=redis.call('TIME') local now=t[1]*1000000+t[2]
redis.call('ZREMRANGEBYSCORE',KEYS[1],0,now-60000000)
if redis.call('ZCARD',KEYS[1])>=100 then return 0 end
redis.call('ZADD',KEYS[1],now,now) redis.call('PEXPIRE',KEYS[1],60000) return 1`

	// secondsSum adds 300 seconds of a hash that has a field for each.
	secondsSum = `local n=0 for i=0,299 do n=n+(tonumber(redis.call('HGET',KEYS[1],i)) or 0) end return n`
)

func workloads() []workload {
	word := func(words ...string) func(string) []string {
		return func(key string) []string {
			with := append([]string{}, words...)
			with[1] = key
			return with
		}
	}
	script := func(text string) func(string) []string {
		return func(key string) []string { return []string{"EVAL", text, "1", key} }
	}
	everySecond := func(key string) (all [][]string) {
		set := []string{"HSET", key}
		for i := range 300 {
			set = append(set, fmt.Sprint(i), "1")
		}
		return [][]string{{"DEL", key}, set}
	}
	hits := func(key string) [][]string { return [][]string{{"HIT", key, "300"}} }
	return []workload{
		{"count a hit", 1_000_000, goal{text: "at most INCR", ratio: 1}, []asked{
			{server: "redis", command: "INCR", words: word("INCR", "")},
			{server: "weir", command: "HIT", words: word("HIT", "")},
			{server: "weir, durable", command: "HIT", words: word("HIT", "")},
			{server: "weir", command: "INCR", words: word("INCR", "")},
		}},
		{"ask for the last 5 minutes", 1_000, goal{text: "at most 1 µs", micros: 1}, []asked{
			{server: "redis", command: "EVAL: sum of a hash of 300 seconds", fewer: 100, words: script(secondsSum), prepare: everySecond},
			{server: "weir", command: "COUNT 5m", words: word("COUNT", "", "5m"), prepare: hits},
		}},
		{"limit to 100 in a minute", 100_000, goal{text: "at most a quarter of the log", ratio: 0.25}, []asked{
			{server: "redis", command: "EVAL: log in a sorted set", fewer: 4, words: script(zsetLog)},
			{server: "weir", command: "ALLOW LIMIT 100 PER 1m", words: word("ALLOW", "", "LIMIT", "100", "PER", "1m")},
			{server: "weir", command: "CL.THROTTLE 99 100 60", words: word("CL.THROTTLE", "", "99", "100", "60")},
		}},
	}
}

func (w *workload) goalOf(a asked) goal {
	if a.server == w.asked[0].server {
		return goal{}
	}
	return w.goal
}

// encode writes a command as RESP has it.
func encode(b *strings.Builder, words []string) {
	fmt.Fprintf(b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(b, "$%d\r\n%s\r\n", len(w), w)
	}
}

// names are the keys, which no other workload has.
func (w *workload) names() []string {
	names := traffic.Keys(w.keys)
	for i := range names {
		names[i] = strings.ReplaceAll(w.name, " ", "-")[:5] + ":" + names[i]
	}
	return names
}

// pipelines are requests of so many commands each, on keys after Zipf's law.
func (w *workload) pipelines(a asked, size int) (requests []string) {
	const most = 4000
	names := w.names()
	picks := traffic.Picks(most*size, w.keys)
	for from := 0; from < len(picks); from += size {
		var b strings.Builder
		for _, pick := range picks[from : from+size] {
			encode(&b, a.words(names[pick]))
		}
		requests = append(requests, b.String())
	}
	return requests
}
