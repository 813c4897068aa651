package history_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// trafficFile lies beside the repository, where it is: seconds of a month of a web server, and the hits of each.
const trafficFile = "../../../shared/data/nasa_jul95_persec.tsv.gz"

// perSecond calls f with each second that has hits: of the file, or made up.
func perSecond(t *testing.T, f func(second int64, n uint64)) {
	t.Helper()
	file, err := os.Open(trafficFile)
	if err != nil {
		t.Logf("no real traffic here (%v): made-up traffic has to do", err)
		rnd := rand.New(rand.NewPCG(13, 14))
		for second := int64(begin); second < begin+20*86400; second += 1 + rnd.Int64N(60) {
			f(second, 1+rnd.Uint64N(12))
		}
		return
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		at, hits, _ := strings.Cut(lines.Text(), "\t")
		second, err := strconv.ParseInt(at, 10, 64)
		n, err2 := strconv.ParseUint(hits, 10, 64)
		if err != nil || err2 != nil {
			t.Fatal(lines.Text(), err, err2)
		}
		f(second, n)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// Every hour, day and month of real traffic by the second is what brute force says, also where some of it came days late and the
// writer was cut off time and again.
func TestRealTraffic(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(15, 16))
	j := newJournal(t)
	file := filepath.Join(t.TempDir(), "history.db")
	s := openStore(t, file)
	w, stop := run(t, s, j, "a", 0)
	var first, last, day int64
	var late []func()
	perSecond(t, func(second int64, n uint64) {
		hit := func() { j.hit(t, fmt.Sprint("k", second%3), second, n) }
		if rnd.IntN(20) == 0 {
			late = append(late, hit)
		} else {
			hit()
		}
		if first == 0 {
			first = second
		}
		if last = max(last, second); last/86400 == day {
			return
		}
		day = last / 86400
		if rnd.IntN(3) == 0 {
			for _, hit := range late {
				hit()
			}
			late = nil
		}
		j.flush(false)
		if rnd.IntN(4) == 0 {
			stop()
			w, stop = run(t, openStore(t, file), j, "a", time.Duration(rnd.IntN(2))*time.Second)
		}
	})
	for _, hit := range late {
		hit()
	}
	j.flush(false)
	await(t, w, j)
	first -= first % 86400
	if spans, doubtful := j.check(t, s, first, last+1); doubtful > 0 || spans < 1000 {
		t.Fatalf("%d of %d spans are not exact", doubtful, spans)
	}
}
