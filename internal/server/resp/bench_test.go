package resp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkPipelines is the cost of a command, with the client's and the loopback's: 16 and 64
// commands at once on 100,000 keys. Those of ALLOW denied all are, after Zipf's law.
func BenchmarkPipelines(b *testing.B) {
	for _, command := range []string{"HIT", "INCR", "PING", "COUNT", "ALLOW", "ALLOW denied"} {
		for _, pipeline := range []int{16, 64} {
			b.Run(fmt.Sprintf("%s/%d", command, pipeline), func(b *testing.B) { benchmarkPipeline(b, command, pipeline) })
		}
	}
}

func benchmarkPipeline(b *testing.B, command string, pipeline int) {
	s := newTestServer(b, Config{}, "")
	c := s.dial()
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 1, 99_999)
	requests := make([]string, 500)
	for i := range requests {
		var text strings.Builder
		for range pipeline {
			key := fmt.Sprintf("user:%08d", rng.IntN(100_000))
			switch command {
			case "PING":
				text.WriteString("*1\r\n$4\r\nPING\r\n")
			case "ALLOW denied":
				key = fmt.Sprintf("user:%08d", zipf.Uint64())
				fmt.Fprintf(&text, "*8\r\n$5\r\nALLOW\r\n$%d\r\n%s\r\n$5\r\nLIMIT\r\n$3\r\n100\r\n$3\r\nPER\r\n$2\r\n1m\r\n$4\r\nCOST\r\n$3\r\n100\r\n", len(key), key)
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
	end := "\n" // there is one of it in each reply
	if command == "COUNT" || strings.HasPrefix(command, "ALLOW") {
		end = "*"
	}
	replies := make([]byte, 64<<10)
	ask := func(request string) {
		if _, err := io.WriteString(c.conn, request); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < pipeline; {
			n, err := c.conn.Read(replies)
			if err != nil {
				b.Fatal(err)
			}
			got += strings.Count(ArgumentView(replies[:n]), end)
		}
	}
	for _, request := range requests {
		ask(request)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ask(requests[i%len(requests)])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pipeline), "ns/command")
}
