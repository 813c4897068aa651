package limits

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/admission"
	"github.com/weir-counter/weir/internal/friend"
)

// Out is what is out of one key, lent by one node.
type Out = admission.Out

// Lender is the side of an engine for the node that lends parts of limits to others (package
// limit/grant). What is out is as good as used.
type Lender interface {
	// Now is the clock that limits are kept by: monotonic, in ns.
	Now() int64

	// DecideBeside is weir.Engine.TakeAll, or PeekAll, where beside has of each check's key how
	// much is out.
	DecideBeside(checks []weir.Check, beside []uint64, verdicts []weir.Verdict, take bool) (allowed bool, err error)

	// Use counts n admissions of a key that were made at the time at, by Now, without asking.
	Use(l *weir.KeyedLimit, key string, at int64, n uint64)

	// SetOut notes how much of a key's limit is out, lent by a node, for held from now on: instead of
	// what it said before of that key and node. It goes to the journal with the next flush, after
	// what Use and DecideBeside have counted so far.
	SetOut(l *weir.KeyedLimit, holder, key string, held time.Duration, out uint64) error

	// Outs calls f with all that is out of keys in some partitions. f must not call the engine.
	Outs(of func(partition int) bool, f func(Out))
}

// Lending is that side of an engine.
func Lending(engine *weir.Engine) Lender { return friend.Side(engine) }
