package replay

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// logConfig says how a made-up access log should be. All fields are needed. The same seed gives the same log.
type logConfig struct {
	lines     int
	seed      uint64
	start     time.Time
	perSecond float64 // lines, on average
	paths     int     // different ones
	hosts     int     // different ones
	lateEvery int     // one line of so many is up to 30 s late; 0 is none
}

// writeLog writes a log in the combined format. Few paths and few hosts make most of the lines, as in real logs.
func writeLog(w io.Writer, c logConfig) error {
	r := rand.New(rand.NewPCG(c.seed, 0))
	paths := rand.NewZipf(r, 1.3, 8, uint64(c.paths-1))
	hosts := rand.NewZipf(r, 1.1, 20, uint64(c.hosts-1))
	out := bufio.NewWriterSize(w, 1<<20)
	at := 0.0
	for range c.lines {
		at += r.ExpFloat64() / c.perSecond
		t := c.start.Add(time.Duration(at) * time.Second)
		if c.lateEvery > 0 && r.IntN(c.lateEvery) == 0 {
			t = t.Add(-time.Duration(r.IntN(30)+1) * time.Second)
		}
		fmt.Fprintf(out, "%s - - [%s] \"%s %s HTTP/1.1\" %d %d \"%s\" \"%s\"\n",
			hostOf(hosts.Uint64()), t.Format("02/Jan/2006:15:04:05 -0700"),
			pickOne(r, methods), pathOf(paths.Uint64()), pickOne(r, statuses), r.IntN(50_000),
			pickOne(r, referers), pickOne(r, agents))
	}
	return out.Flush()
}

func pickOne[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// hostOf spreads its numbers over the whole address space, and makes some of them IPv6.
func hostOf(n uint64) string {
	x := n*0x9e3779b97f4a7c15 ^ n>>7
	if n%8 == 7 {
		return fmt.Sprintf("2001:db8:%x:%x::%x", x>>48, x>>32&0xffff, n)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 1+x>>56%223, x>>48&255, x>>40&255, x>>32&255)
}

func pathOf(n uint64) string {
	switch n % 4 {
	case 0:
		return fmt.Sprintf("/articles/%d/how-to-count-what-flows", n)
	case 1:
		return fmt.Sprintf("/static/img/%x.png", n*2654435761)
	case 2:
		return fmt.Sprintf("/search?q=weir+%d&page=%d", n, n%9)
	}
	return fmt.Sprintf("/api/v1/items/%d", n)
}

var (
	methods  = []string{"GET", "GET", "GET", "GET", "POST", "HEAD"}
	statuses = []int{200, 200, 200, 200, 304, 301, 404, 500}
	referers = []string{
		"-", "-", "https://example.com/", "https://www.example.org/search?q=hits+per+second",
		"https://news.example.net/item?id=4711",
	}
	agents = []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15",
		"Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
		"curl/8.8.0",
		"ExampleBot/2.1 (+https://example.com/bot.html)",
	}
)
