package resp

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// allow is ALLOW.
func (s *session) allow(args [][]byte) error { return s.decide(args, false) }

// peek is PEEK.
func (s *session) peek(args [][]byte) error { return s.decide(args, true) }

func (s *session) decide(args [][]byte, peek bool) error {
	a := &s.allowing
	if err := a.read(args[1:]); err != nil {
		return err
	}
	if err := s.server.service.Allow(s.caller, a.requests, peek, &a.decision); err != nil {
		return err
	}
	s.writeDecision(&a.decision)
	return nil
}

// read reads what is asked: keys up to the first option, and what is asked of all of them.
func (a *allowing) read(args [][]byte) error {
	a.requests = a.requests[:0]
	for i := 0; len(args) > 0 && (i == 0 || !isAllowOption(args[0])); i++ {
		if err := refused(service.CheckKey(argument.View(args[0]))); err != nil {
			return err
		}
		a.requests = append(a.requests, admit.Request{Key: argument.View(args[0]), N: 1})
		args = args[1:]
	}
	a.inline = admit.Limit{}
	var name string
	inline, cost := false, uint64(1)
	a.costs = a.costs[:0]
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return argument.ErrSyntax
		}
		var err error
		value := args[1]
		switch option := args[0]; {
		case argument.Is(option, "NAME"):
			name = string(value)
		case argument.Is(option, "COST") && bytes.IndexByte(value, '=') >= 0:
			err = a.readCost(value)
		case argument.Is(option, "COST"):
			cost, err = argument.Count(value, "COST", 0)
		case argument.Is(option, "LIMIT"):
			inline = true
			a.inline.N, err = argument.Count(value, "LIMIT", 1)
		case argument.Is(option, "PER"):
			a.inline.Per, err = argument.Duration(value, "PER")
		case argument.Is(option, "BURST"):
			a.inline.Burst, err = argument.Count(value, "BURST", 1)
		case argument.Is(option, "ALGORITHM"):
			a.inline.Algorithm, err = readAlgorithm(value)
		default:
			err = argument.ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	if inline != (a.inline.Per > 0) || !inline && a.inline != (admit.Limit{}) {
		return argument.Wrong(api.CodeInvalidLimit, "limit", "a limit needs LIMIT n and PER duration, for example LIMIT 100 PER 1m")
	}
	for i := range a.requests {
		r := &a.requests[i]
		if r.Limit, r.N, r.Costs = name, cost, a.costs; inline {
			r.Inline = &a.inline
		}
	}
	return nil
}

// readCost reads a cost by its name, such as tokens=812.
func (a *allowing) readCost(value []byte) error {
	name, number, _ := bytes.Cut(value, []byte("="))
	n, err := argument.Count(number, "COST", 0)
	if err == nil && len(a.costs) == admit.MaxCosts {
		err = argument.Wrong(api.CodeInvalidCount, "COST", "there are more than "+strconv.Itoa(admit.MaxCosts)+" costs by name")
	}
	a.costs = append(a.costs, admit.Cost{Field: string(name), N: n})
	return err
}

// allowOptions begin the options of ALLOW. A first key may be spelled like one.
var allowOptions = []string{"NAME", "COST", "LIMIT", "PER", "BURST", "ALGORITHM"}

func isAllowOption(arg []byte) bool {
	for _, option := range allowOptions {
		if argument.Is(arg, option) {
			return true
		}
	}
	return false
}

func readAlgorithm(word []byte) (admit.Algorithm, error) {
	for _, one := range []admit.Algorithm{admit.Window, admit.Fixed, admit.GCRA} {
		if argument.Is(word, one.String()) {
			return one, nil
		}
	}
	return 0, argument.Wrong(api.CodeInvalidLimit, "algorithm", "ALGORITHM "+argument.Clip(word)+": must be window, fixed or gcra")
}

// writeDecision writes allowed, remaining, retry_after_ms, reset_ms and limit, of a denial its ID, and of requests that waited for their
// turn for how long. A decision of several limits is as the one that leaves least: of a denial, the one that denied. No limit is for keys
// that no policy knows: remaining and limit are null. Of a limit that regions share, where there is something to say, others and late come
// last: in an array they are the last two of eight or more, so denial is null where there is neither it nor waited_ms.
func (s *session) writeDecision(d *admit.Decision) {
	tightest := d.Denied
	if tightest == nil {
		tightest = leastOf(d)
	}
	denied, waited := len(d.Denial) > 0, d.Waited > 0
	regions := tightest != nil && (tightest.Others > 0 || len(tightest.Late) > 0)
	fields := 5
	for _, more := range []bool{denied || regions && !waited, waited, regions, regions} {
		if more {
			fields++
		}
	}
	if s.out.V3() {
		s.out.Map(fields)
	} else {
		s.out.Array(fields)
	}
	s.field("allowed")
	s.out.Bool(d.Allowed)
	s.field("remaining")
	if tightest == nil {
		s.out.Null()
	} else {
		s.out.Uint(tightest.Remaining)
	}
	s.field("retry_after_ms")
	s.out.Int(wholeUnits(d.RetryAfter, time.Millisecond))
	s.field("reset_ms")
	if tightest == nil {
		s.out.Int(0)
	} else {
		s.out.Int(wholeUnits(tightest.Reset, time.Millisecond))
	}
	s.field("limit")
	if tightest == nil {
		s.out.Null()
	} else {
		s.out.Bulk(tightest.Name)
	}
	switch {
	case denied:
		s.field("denial")
		s.out.Bulk(argument.View(d.Denial))
	case regions && !waited:
		s.field("denial")
		s.out.Null()
	}
	if waited {
		s.field("waited_ms")
		s.out.Int(wholeUnits(d.Waited, time.Millisecond))
	}
	if regions {
		s.field("others")
		s.out.Uint(tightest.Others)
		s.field("late")
		s.out.Array(len(tightest.Late))
		for _, name := range tightest.Late {
			s.out.Bulk(name)
		}
	}
}

// leastOf is the limit with the least remaining, of those that enforce; nil: there is none.
func leastOf(d *admit.Decision) (least *admit.Result) {
	remaining := uint64(math.MaxUint64)
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce && (least == nil || r.Remaining < remaining) {
			least, remaining = r, r.Remaining
		}
	}
	return least
}

// wholeUnits rounds up: who waits for so long has waited long enough.
func wholeUnits(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
