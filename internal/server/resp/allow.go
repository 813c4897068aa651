package resp

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/service/request"
	"github.com/weir-counter/weir/policy"
)

func (s *session) allow(args [][]byte) error { return s.decide(args, false) }

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

// read reads the keys, up to the first option, and then the options, which apply to all keys.
func (a *allowing) read(args [][]byte) error {
	a.requests = a.requests[:0]
	for i := 0; len(args) > 0 && (i == 0 || !isAllowOption(args[0])); i++ {
		if err := refused(request.CheckKey(ArgumentView(args[0]))); err != nil {
			return err
		}
		a.requests = append(a.requests, admit.Request{Key: ArgumentView(args[0]), N: 1})
		args = args[1:]
	}
	a.inline = admit.Limit{}
	var name string
	inline, cost := false, uint64(1)
	a.costs = a.costs[:0]
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return ErrSyntax
		}
		var err error
		value := args[1]
		switch option := args[0]; {
		case ArgumentIs(option, "NAME"):
			name = string(value)
		case ArgumentIs(option, "COST") && bytes.IndexByte(value, '=') >= 0:
			err = a.readCost(value)
		case ArgumentIs(option, "COST"):
			cost, err = ArgumentCount(value, "COST", 0)
		case ArgumentIs(option, "LIMIT"):
			inline = true
			a.inline.N, err = ArgumentCount(value, "LIMIT", 1)
		case ArgumentIs(option, "PER"):
			a.inline.Per, err = ArgumentDuration(value, "PER")
		case ArgumentIs(option, "BURST"):
			a.inline.Burst, err = ArgumentCount(value, "BURST", 1)
		case ArgumentIs(option, "ALGORITHM"):
			a.inline.Algorithm, err = readAlgorithm(value)
		default:
			err = ErrSyntax
		}
		if err != nil {
			return err
		}
	}
	if inline != (a.inline.Per > 0) || !inline && a.inline != (admit.Limit{}) {
		return WrongArgument(api.CodeInvalidLimit, "limit", "a limit needs LIMIT n and PER duration, for example LIMIT 100 PER 1m")
	}
	for i := range a.requests {
		r := &a.requests[i]
		if r.Limit, r.N, r.Costs = name, cost, a.costs; inline {
			r.Inline = &a.inline
		}
	}
	return nil
}

// readCost reads a named cost, such as tokens=812.
func (a *allowing) readCost(value []byte) error {
	name, number, _ := bytes.Cut(value, []byte("="))
	n, err := ArgumentCount(number, "COST", 0)
	if err == nil && len(a.costs) == admit.MaxCosts {
		err = WrongArgument(api.CodeInvalidCount, "COST", "there are more than "+strconv.Itoa(admit.MaxCosts)+" costs by name")
	}
	a.costs = append(a.costs, admit.Cost{Field: string(name), N: n})
	return err
}

// allowOptions are the words that begin the options of ALLOW. The first key may be one of them.
var allowOptions = []string{"NAME", "COST", "LIMIT", "PER", "BURST", "ALGORITHM"}

func isAllowOption(arg []byte) bool {
	return slices.ContainsFunc(allowOptions, func(option string) bool { return ArgumentIs(arg, option) })
}

func readAlgorithm(word []byte) (admit.Algorithm, error) {
	for _, one := range []admit.Algorithm{admit.Window, admit.Fixed, admit.GCRA} {
		if ArgumentIs(word, one.String()) {
			return one, nil
		}
	}
	return 0, WrongArgument(api.CodeInvalidLimit, "algorithm", "ALGORITHM "+ClipArgument(word)+": must be window, fixed or gcra")
}

// writeDecision writes allowed, remaining, retry_after_ms, reset_ms and limit. A denial adds its ID, and a request that
// waited for its turn adds waited_ms. Of several limits, the reply shows the one that denied, else the one with the
// least left. If no policy applies to the keys, remaining and limit are null.
func (s *session) writeDecision(d *admit.Decision) {
	tightest := d.Denied
	if tightest == nil {
		tightest = leastOf(d)
	}
	denied, waited := len(d.Denial) > 0, d.Waited > 0
	s.record(5 + bit(denied) + bit(waited))
	var remaining *uint64
	var reset time.Duration
	limit := ""
	if tightest != nil {
		remaining, reset, limit = &tightest.Remaining, tightest.Reset, tightest.Name
	}
	s.field("allowed").Bool(d.Allowed)
	s.field("remaining").OptionalUint(remaining)
	s.field("retry_after_ms").Int(wholeUnits(d.RetryAfter, time.Millisecond))
	s.field("reset_ms").Int(wholeUnits(reset, time.Millisecond))
	s.field("limit").OptionalBulk(limit)
	if denied {
		s.field("denial").Bulk(ArgumentView(d.Denial))
	}
	if waited {
		s.field("waited_ms").Int(wholeUnits(d.Waited, time.Millisecond))
	}
}

// leastOf returns the enforced limit with the least remaining; nil: there is none.
func leastOf(d *admit.Decision) (least *admit.Result) {
	remaining := uint64(math.MaxUint64)
	for i := range d.Results {
		if r := &d.Results[i]; r.Mode == policy.Enforce && (least == nil || r.Remaining < remaining) {
			least, remaining = r, r.Remaining
		}
	}
	return least
}

// wholeUnits rounds up, so that a client that waits this long has waited long enough.
func wholeUnits(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// reserveAdmissions is RESERVE. It replies with the ID, which is null for a denial or if no limit applies to the keys.
// The second element is the reply of ALLOW, or null if the ID was known.
func (s *session) reserveAdmissions(args [][]byte) error {
	var terms limits.Reservation
	var err error
	args = args[1:]
	for n := len(args); n > 2; n = len(args) {
		value := string(args[n-1])
		switch option := args[n-2]; {
		case ArgumentIs(option, "TTL"):
			terms.TTL, err = request.ParseWindow("ttl", value)
		case ArgumentIs(option, "ID"):
			terms.ID = value
		case ArgumentIs(option, "UNSETTLED") && (value == "used" || value == "returned"):
			terms.GiveBack = value == "returned"
		case ArgumentIs(option, "UNSETTLED"):
			err = ErrSyntax
		default:
			n = 0
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		args = args[:n-2]
	}
	a := &s.allowing
	if err := a.read(args); err != nil {
		return err
	}
	id, known, err := s.server.service.Reserve(s.caller, a.requests, terms, &a.decision)
	if err != nil {
		return err
	}
	s.out.Array(2)
	s.out.OptionalBulk(id)
	if known {
		s.out.Null()
		return nil
	}
	s.writeDecision(&a.decision)
	return nil
}

// settleReservation is SETTLE. It replies with how many were given back, and how many were used beyond the reservation
// without being counted.
func (s *session) settleReservation(args [][]byte) error {
	rest := args[2:]
	debt := len(rest) > 1 && ArgumentIs(rest[len(rest)-1], "DEBT")
	if debt {
		rest = rest[:len(rest)-1]
	}
	var used admit.Used
	a := &s.allowing
	a.costs = a.costs[:0]
	for _, arg := range rest {
		var err error
		switch {
		case bytes.IndexByte(arg, '=') >= 0:
			err = a.readCost(arg)
		case len(rest) > 1:
			err = ErrSyntax
		default:
			used.N, err = ArgumentCount(arg, "used", 0)
		}
		if err != nil {
			return err
		}
	}
	used.Costs = a.costs
	answer, err := s.server.service.Settle(s.ctx, s.caller, string(args[1]), used, debt)
	if err != nil {
		return err
	}
	s.out.Array(2)
	s.out.Uint(leastRefunded(answer.Limits))
	s.out.Uint(answer.Over)
	return nil
}

func leastRefunded(limits []api.LimitSettled) (n uint64) {
	for i, l := range limits {
		if i == 0 || l.Refunded < n {
			n = l.Refunded
		}
	}
	return n
}

// takePermit is PERMIT. It replies with the permit's ID and its TTL in ms, or with null and the ms until a permit is
// free.
func (s *session) takePermit(args [][]byte) error {
	limit := ""
	switch {
	case len(args) == 4 && ArgumentIs(args[2], "NAME"):
		limit = string(args[3])
	case len(args) != 2:
		return ErrSyntax
	}
	answer, err := s.server.service.TakePermit(s.caller, string(args[1]), limit)
	if denied, ok := errors.AsType[*api.Error](err); ok && denied.Code == api.CodeAtOnce {
		s.out.Array(2)
		s.out.Null()
		s.out.Int(wholeUnits(denied.RetryAfter, time.Millisecond))
		return nil
	}
	if err != nil {
		return err
	}
	s.out.Array(2)
	s.out.Bulk(answer.ID)
	s.out.Int(wholeUnits(answer.TTL(), time.Millisecond))
	return nil
}

// heartbeat is HEARTBEAT. It replies with the ms for which the permit is now held.
func (s *session) heartbeat(args [][]byte) error {
	answer, err := s.server.service.RenewPermit(s.caller, string(args[1]))
	return s.number(uint64(wholeUnits(answer.TTL(), time.Millisecond)), err)
}

// release is RELEASE: 1 if the permit was held.
func (s *session) release(args [][]byte) error {
	answer, err := s.server.service.ReleasePermit(s.caller, string(args[1]))
	return s.number(uint64(bit(answer.Released)), err)
}

// throttle is CL.THROTTLE. It replies with five numbers. The first is 1 if the request is limited; then follow the
// burst and what remains of it. The fourth is the seconds until the request would pass (-1: it passed, or never will).
// The last is the seconds until the whole burst is available.
func (s *session) throttle(args [][]byte) error {
	if len(args) > 6 {
		return ErrSyntax
	}
	var numbers [4]int64 // max_burst, count, period, quantity
	numbers[3] = 1
	for i, arg := range args[2:] {
		n, err := ArgumentInt(arg)
		if err != nil {
			return err
		}
		if mayBeZero := i == 0 || i == 3; n < 0 || n == 0 && !mayBeZero {
			return WrongArgument(api.CodeInvalidLimit, "limit", "CL.THROTTLE needs max_burst and quantity from 0, count and period from 1")
		}
		numbers[i] = n
	}
	const longest = math.MaxInt64 / int64(time.Second)
	if numbers[2] > longest || numbers[0] == math.MaxInt64 {
		return WrongArgument(api.CodeInvalidLimit, "limit", "CL.THROTTLE: period or max_burst is too large")
	}
	r, err := s.bucket(args[1], admit.Limit{N: uint64(numbers[1]), Per: time.Duration(numbers[2]) * time.Second, Burst: uint64(numbers[0]) + 1, Algorithm: admit.GCRA}, uint64(numbers[3]), false)
	if err != nil {
		return err
	}
	retry := int64(-1)
	if !r.Allowed && !r.Never {
		retry = wholeUnits(r.RetryAfter, time.Second)
	}
	s.out.Ints(int64(bit(!r.Allowed)), int64(r.Limit.Burst), int64(r.Remaining), retry, wholeUnits(r.Reset, time.Second))
	return nil
}
