package main

import (
	"strings"
	"testing"
	"time"
)

func TestPage(t *testing.T) {
	var page strings.Builder
	err := write(&page, "go1", []result{
		{Limiter: "ours", Most: 1000, Schedule: "steady", Total: 95_000},
		{Limiter: "theirs", Module: "example.org/theirs", Version: "v1", Most: 2000, Schedule: "burst", Total: 1_000_000, RealTime: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| ours | - | 1000 | steady | 95,000 |\n",
		"| theirs | v1 | 2000 | burst | 1,000,000 |\n",
		"theirs runs in real time",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in:\n%s", want, page.String())
		}
	}
}

// The interval is half-open, and a doubt about the time is never to the limiter's
// disadvantage.
func TestMostWithin(t *testing.T) {
	at := func(times ...time.Duration) (list []admission) {
		for _, at := range times {
			list = append(list, admission{at, at})
		}
		return list
	}
	for _, test := range []struct {
		list []admission
		want int
	}{
		{nil, 0},
		{at(5), 1},
		{at(0, 9), 2},
		{at(0, 10), 1},
		{at(0, 0, 9, 10, 10, 19, 19), 4},
		{[]admission{{0, 1}, {9, 9}, {9, 10}}, 2},
	} {
		if got := mostWithin(test.list, 10); got != test.want {
			t.Errorf("%v: %d, want %d", test.list, got, test.want)
		}
	}
}
