package resp

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// bucket asks one key's limit that the request brings along, and takes n of it, all or none; peek takes and
// counts nothing. To ask for more than the burst is no error: it is denied, and Never. The result is valid until
// the next decision of the session.
func (s *session) bucket(key []byte, l admit.Limit, n uint64, peek bool) (*admit.Result, error) {
	if err := refused(service.CheckKey(argument.View(key))); err != nil {
		return nil, err
	}
	a := &s.allowing
	a.inline = l
	a.requests = append(a.requests[:0], admit.Request{Key: argument.View(key), Inline: &a.inline, N: n})
	d := &a.decision
	d.NoID = true // neither CL.THROTTLE nor a script has a place for it
	defer func() { d.NoID = false }()
	err := s.server.service.Allow(s.caller, a.requests, peek, d)
	if err != nil && (service.AsError(err).Code != api.CodeInvalidCount || !d.Never) {
		return nil, err
	}
	return &d.Results[0], nil
}

// writeNumber writes a number that need not be whole as Lua's tostring has it: as text, of 14 digits.
func (s *session) writeNumber(f float64) {
	var digits [32]byte
	s.out.BulkBytes(strconv.AppendFloat(digits[:0], f, 'g', 14, 64))
}

// readNumber reads a number that need not be whole, and is finite and at least 0.
func readNumber(arg []byte) (float64, error) {
	f, err := strconv.ParseFloat(argument.View(arg), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return 0, argument.Wrong(api.CodeInvalidParameter, "argument", "argument "+argument.Clip(arg)+" of a script: must be a number from 0")
	}
	return f, nil
}

// nanoseconds is a time that need not be whole seconds, to the nearest; what no Duration holds is the longest one.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(min(math.Round(seconds*float64(time.Second)), math.MaxInt64/2))
}
