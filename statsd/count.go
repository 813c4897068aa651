package statsd

import (
	"bytes"
	"math"
	"math/rand/v2"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/service"
)

// counting counts lines. It belongs to one goroutine.
type counting struct {
	server *Server
	random *rand.Rand
	tally  service.Tally
	line   line
	key    []byte // of the line that is counted
}

func newCounting(of *Server) *counting {
	stream := of.streams.Add(1)                                                                                                // receivers with one seed round in different ways
	return &counting{server: of, random: rand.New(rand.NewPCG(of.cfg.Seed, stream)), key: make([]byte, 0, weir.MaxKeyBytes+1)} //nolint:gosec // it rounds, and hides nothing
}

// count counts the lines of text, which came together.
func (c *counting) count(text []byte) {
	s := c.server
	if err := s.service.Pools.Hits.Enter(s.caller, 1); err != nil {
		c.refuseAll(err, text)
		return
	}
	defer s.service.Pools.Hits.Leave(s.caller, 1)
	if err := s.service.Ingest(s.caller, &c.tally); err != nil {
		c.refuseAll(err, text)
		return
	}
	now := s.service.Now()
	for len(text) > 0 {
		var one []byte
		one, text, _ = bytes.Cut(text, []byte{'\n'})
		if one = bytes.TrimRight(one, "\r"); len(one) == 0 {
			continue
		}
		if len(one) > s.cfg.MaxLineBytes {
			s.refused.add(longLine, 1, one)
			continue
		}
		if err := c.countLine(one, now); err != nil {
			s.refused.add(other, 1, one)
			_ = s.service.Verdict(&c.tally, err) // for its figures: there is nobody to tell
			c.refuseAll(err, text)
			return
		}
	}
	_ = s.service.Verdict(&c.tally, nil) // for its figures
}

// countLine counts a line, or notes why not. It fails when no further one can be counted.
func (c *counting) countLine(text []byte, now time.Time) error {
	s, t := c.server, &c.tally
	t.Line++
	n, why := c.read(text)
	if why != counted {
		s.refused.add(why, 1, text)
		return nil
	}
	if n == 0 {
		s.counters.Add(1)
		return nil
	}
	at := now
	if c.line.at != 0 {
		at = time.Unix(c.line.at, 0)
	}
	late, rejected := t.TooLate, t.RejectedLines
	if !t.Refuses() {
		if err := s.service.Hit(t, at, view(c.key), n); err != nil {
			return err
		}
	}
	switch {
	case t.TooLate > late:
		s.refused.add(tooLate, 1, text)
	case t.RejectedLines > rejected:
		s.refused.add(reasonOf(t.LastRejected()), 1, text)
	default:
		s.counters.Add(1)
	}
	return nil
}

// read splits a line, and makes its key and how many hits it stands for.
func (c *counting) read(text []byte) (n uint64, why reason) {
	if why = c.line.split(text); why != counted {
		return 0, why
	}
	if n, why = c.hits(); why != counted {
		return 0, why
	}
	if c.key, why = c.server.template.appendKey(c.key[:0], &c.line, weir.MaxKeyBytes); why != counted {
		return 0, why
	}
	if bad := service.CheckHitKey(view(c.key)); bad != nil {
		return 0, reasonOf(bad.Code)
	}
	return n, counted
}

// hits is the sum of a line's values over its sample rate, as a whole number whose mean is that.
func (c *counting) hits() (uint64, reason) {
	sum := 0.0
	for rest := c.line.values; ; {
		text, after, more := bytes.Cut(rest, []byte{':'})
		value, ok := number(text)
		switch {
		case !ok:
			return 0, invalidValue
		case value < 0:
			return 0, negative
		}
		sum += value
		if !more {
			break
		}
		rest = after
	}
	sum /= c.line.rate
	if sum > weir.MaxHits {
		return 0, tooLarge
	}
	whole := math.Floor(sum)
	n := uint64(whole)
	if rest := sum - whole; rest > 0 && c.random.Float64() < rest {
		n++
	}
	return n, counted
}

// refuseAll notes that no line of text is counted, and why.
func (c *counting) refuseAll(err error, text []byte) {
	var lines uint64
	var first []byte
	for one := range bytes.SplitSeq(text, []byte{'\n'}) {
		if one = bytes.TrimRight(one, "\r"); len(one) > 0 {
			if lines++; lines == 1 {
				first = one
			}
		}
	}
	if lines > 0 {
		c.server.refused.add(reasonOf(service.AsError(err).Code), lines, first)
	}
}
