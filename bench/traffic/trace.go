package traffic

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
)

// Day is a day in seconds.
const Day = 86_400

// Trace is the number of hits of one thing, second by second.
type Trace struct {
	Start  int64   // Unix second of the first
	Counts []int64 // hits in the seconds Start, Start+1, ...
}

// Generated returns days whose traffic rises and falls like the traffic of a web site. They include bursts of some
// seconds to some minutes, and an hour without hits each night.
func Generated(days int) Trace {
	r := rand.New(rand.NewPCG(seed, 3))
	trace := Trace{1_700_006_400, make([]int64, days*Day)} // midnight, UTC
	for i := range trace.Counts {
		hour := float64(i%Day) / 3_600
		if hour < 3 || hour >= 4 {
			trace.Counts[i] = poisson(r, 1.6-1.4*math.Cos((hour-3)/24*2*math.Pi))
		}
	}
	for range 6 * days {
		length, rate := 20+r.IntN(600), 10+r.Float64()*90
		first := r.IntN(len(trace.Counts) - length)
		for i := first; i < first+length; i++ {
			trace.Counts[i] += poisson(r, rate)
		}
	}
	return trace
}

// poisson draws from the Poisson distribution, mean below some hundreds.
func poisson(r *rand.Rand, mean float64) (n int64) {
	for p := r.Float64(); p > math.Exp(-mean); p *= r.Float64() {
		n++
	}
	return n
}

// Recorded returns a number of days of a gzipped file of lines `epoch count`
// with times that rise, from the given Unix second on.
func Recorded(path string, start int64, days int) (Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return Trace{}, err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return Trace{}, fmt.Errorf("%s: %w", path, err)
	}
	trace, lines := Trace{start, make([]int64, days*Day)}, bufio.NewReader(plain)
	for {
		var at, count int64
		switch _, err := fmt.Fscan(lines, &at, &count); {
		case errors.Is(err, io.EOF):
			return trace, nil
		case err != nil:
			return Trace{}, fmt.Errorf("%s: %w", path, err)
		case at >= start && at < start+int64(len(trace.Counts)):
			trace.Counts[at-start] = count
		}
	}
}
