package resp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weir-counter/weir/resp/argument"
)

// BenchmarkPipelines is the cost of a command, with the client's and the loopback's: 16 and 64
// commands at once on 100,000 keys.
func BenchmarkPipelines(b *testing.B) {
	for _, command := range []string{"HIT", "INCR", "PING", "COUNT", "ALLOW"} {
		for _, pipeline := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/%d", command, pipeline), func(b *testing.B) { benchmarkPipeline(b, command, pipeline) })
		}
	}
}

func benchmarkPipeline(b *testing.B, command string, pipeline int) {
	s := newTestServer(b, Config{}, "")
	c := s.dial()
	rng := rand.New(rand.NewPCG(1, 2))
	requests := make([]string, 500)
	for i := range requests {
		var text strings.Builder
		for range pipeline {
			key := fmt.Sprintf("user:%08d", rng.IntN(100_000))
			switch command {
			case "PING":
				text.WriteString("*1\r\n$4\r\nPING\r\n")
			case "COUNT":
				fmt.Fprintf(&text, "*3\r\n$5\r\nCOUNT\r\n$%d\r\n%s\r\n$2\r\n5m\r\n", len(key), key)
			case "ALLOW":
				fmt.Fprintf(&text, "*6\r\n$5\r\nALLOW\r\n$%d\r\n%s\r\n$5\r\nLIMIT\r\n$3\r\n100\r\n$3\r\nPER\r\n$2\r\n1m\r\n", len(key), key)
			default:
				fmt.Fprintf(&text, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(command), command, len(key), key)
			}
		}
		requests[i] = text.String()
	}
	lines := pipeline
	switch command {
	case "COUNT":
		lines *= 6
	case "ALLOW":
		lines *= 7
	}
	replies := make([]byte, 64<<10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := io.WriteString(c.conn, requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < lines; {
			n, err := c.conn.Read(replies)
			if err != nil {
				b.Fatal(err)
			}
			got += strings.Count(argument.View(replies[:n]), "\n")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/command")
}
