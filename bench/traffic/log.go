package traffic

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"
)

// WriteLog writes an access log in Apache's combined format. The lines cover one day in order of time, with 5,000 paths
// and 50,000 hosts.
func WriteLog(w io.Writer, lines int) error {
	r := rand.New(rand.NewPCG(seed, 4))
	paths := rand.NewZipf(r, 1.1, 4, 5_000-1)
	hosts := rand.NewZipf(r, 1.1, 50, 50_000-1)
	agents := []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
		"Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
		"curl/8.11.0",
	}
	statuses := []int{200, 200, 200, 200, 200, 200, 304, 302, 404, 500}
	start := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	out := bufio.NewWriterSize(w, 1<<20)
	for i := range lines {
		at := start.Add(time.Duration(int64(i)*Day/int64(lines)) * time.Second)
		host := uint32(10<<24 + 2_654_435_761*hosts.Uint64()%(1<<24))
		path := paths.Uint64()
		_, err := fmt.Fprintf(out, "%s - - [%s] \"GET /section-%d/page-%04d.html HTTP/1.1\" %d %d \"https://www.example.com/section-%d/\" %q\n",
			netip.AddrFrom4([4]byte{byte(host >> 24), byte(host >> 16), byte(host >> 8), byte(host)}),
			at.Format("02/Jan/2006:15:04:05 -0700"), path%16, path,
			statuses[r.IntN(len(statuses))], 200+r.IntN(50_000), r.IntN(16), agents[r.IntN(len(agents))])
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
