package statsd

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// reason is what became of a line.
type reason int

// The reasons. counted is none.
const (
	counted reason = iota
	malformed
	invalidValue
	negative
	tooLarge
	invalidRate
	invalidTime
	refusedGauge
	refusedTimer
	refusedHistogram
	refusedDistribution
	refusedSet
	refusedEvent
	refusedCheck
	unknownType
	longLine
	manyTags
	invalidKey
	reservedKey
	tooLate
	tooFarAhead
	forbidden
	ceilingReached
	unauthorized
	overloaded
	other
	reasons
)

// words are the names of reasons in metrics and logs, and what to do about them.
var words = [reasons]struct{ name, advice string }{
	malformed:           {"malformed", "write name:value|c"},
	invalidValue:        {"invalid_value", "a counter's value is a decimal number"},
	negative:            {"negative", "hits can't be taken back: send what is 0 or more"},
	tooLarge:            {"too_large", "value / rate is 1099511627776 at most"},
	invalidRate:         {"invalid_rate", "a sample rate is above 0, and 1 at most"},
	invalidTime:         {"invalid_timestamp", "write |T and Unix seconds, not milliseconds or smaller units"},
	refusedGauge:        {"unsupported_gauge", "Weir counts: send counters (|c) here, and gauges elsewhere"},
	refusedTimer:        {"unsupported_timer", "Weir counts: send counters (|c) here, and timers elsewhere"},
	refusedHistogram:    {"unsupported_histogram", "Weir counts: send counters (|c) here, and histograms elsewhere"},
	refusedDistribution: {"unsupported_distribution", "Weir counts: send counters (|c) here, and distributions elsewhere"},
	refusedSet:          {"unsupported_set", "Weir does not count distinct values: send counters (|c) here, and sets elsewhere"},
	refusedEvent:        {"unsupported_event", "Weir counts: send events elsewhere"},
	refusedCheck:        {"unsupported_service_check", "Weir counts: send service checks elsewhere"},
	unknownType:         {"unknown_type", "the type of a counter is c"},
	longLine:            {"line_too_long", "send shorter lines"},
	manyTags:            {"too_many_tags", "send 64 tags at most where the key has {tags}"},
	invalidKey:          {"invalid_key", "a key has 1 to 512 bytes of UTF-8: send a shorter name, or write another --statsd-key"},
	reservedKey:         {"reserved_key", "keys limit:... are counted by limits alone: write another --statsd-key"},
	tooLate:             {"too_late", "the time is before what --retention keeps"},
	tooFarAhead:         {"too_far_ahead", "the time is further ahead than --max-ahead: set the sender's clock"},
	forbidden:           {"forbidden", "the identity of --statsd-identity may not count this key"},
	ceilingReached:      {"ceiling_reached", "the identity of --statsd-identity has reached a ceiling of the tokens file"},
	unauthorized:        {"unauthorized", "the identity of --statsd-identity is not in the tokens file any more"},
	overloaded:          {"overloaded", "the journal is behind, or too much is counted at once"},
	other:               {"other", "the server's log says more"},
}

// refusals counts the lines that were not counted, by reason, and logs them now and then.
type refusals struct {
	log *slog.Logger
	by  [reasons]struct {
		count  atomic.Uint64
		logged atomic.Int64 // when it was last, ns of the Unix epoch
		told   atomic.Uint64
	}
}

// logEvery is how often a reason is logged at most.
const logEvery = time.Minute

// add notes lines of a reason, one of them text.
func (r *refusals) add(why reason, lines uint64, text []byte) {
	of := &r.by[why]
	total := of.count.Add(lines)
	now, last := time.Now().UnixNano(), of.logged.Load()
	if last != 0 && now-last < int64(logEvery) || !of.logged.CompareAndSwap(last, now) {
		return
	}
	r.log.Warn("StatsD lines were not counted", "reason", words[why].name, "lines", total-of.told.Swap(total), "one", service.Clip(string(text)), "advice", words[why].advice)
}

// total is how many lines were not counted.
func (r *refusals) total() (n uint64) {
	for i := range r.by {
		n += r.by[i].count.Load()
	}
	return n
}

// reasonOf is the reason of an error code of the service.
func reasonOf(code api.Code) reason {
	switch code {
	case api.CodeInvalidKey:
		return invalidKey
	case api.CodeInvalidTime:
		return invalidTime
	case api.CodeReservedKey:
		return reservedKey
	case api.CodeTooFarAhead:
		return tooFarAhead
	case api.CodeTooLate:
		return tooLate
	case api.CodeForbidden:
		return forbidden
	case api.CodeCeiling:
		return ceilingReached
	case api.CodeUnauthorized:
		return unauthorized
	case api.CodeOverloaded:
		return overloaded
	}
	return other
}
