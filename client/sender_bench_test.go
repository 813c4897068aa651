package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// measureCPU reports what the process computes for each operation: on a machine that others use, time says less.
func measureCPU(b *testing.B) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ReportAllocs()
	before := used()
	b.Cleanup(func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") })
}

// benchSender is a Sender whose server takes everything, and b.N hits of one key or of many.
func benchSender(b *testing.B) *Sender {
	c, err := New("weir.test", Options{HTTPClient: &http.Client{Transport: taking{}}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewSender(c, SenderOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(context.Background()) })
	measureCPU(b)
	return s
}

type taking struct{}

func (taking) RoundTrip(*http.Request) (*http.Response, error) {
	return respond(200, nil, `{"counted":1,"rejected":[]}`), nil
}

// What a hit costs whose key was hit in this second before: the clock, the hash, the lock, the look-up.
func BenchmarkSenderOneKey(b *testing.B) {
	s := benchSender(b)
	for b.Loop() {
		if err := s.Hit("url:/home"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSenderOneKeyParallel(b *testing.B) {
	s := benchSender(b)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			_ = s.Hit("url:/home")
		}
	})
}

// Keys by Zipf's law, most of which were hit in this flush interval before.
func BenchmarkSenderZipf(b *testing.B) {
	s, z := benchSender(b), rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 9_999)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint("url:/page/", z.Uint64())
	}
	i := 0
	for b.Loop() {
		if err := s.Hit(keys[i&(1<<16-1)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// What of each hit is the reading of this machine's clock.
func BenchmarkSenderClockAlone(b *testing.B) {
	measureCPU(b)
	for b.Loop() {
		_ = time.Now()
	}
}

// A hit that begins a line: its key was not hit in this second.
func BenchmarkSenderNewLine(b *testing.B) {
	t, second, n := newSumTable(1<<20, 1<<40), time.Now().Unix(), 0
	key := strings.Repeat("k", 20)
	measureCPU(b)
	for b.Loop() {
		if err := t.Add(key, second+int64(n), 1); err != nil {
			b.Fatal(err)
		}
		if n++; n%100_000 == 0 {
			t.Release(t.Take())
		}
	}
}
