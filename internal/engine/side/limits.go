// Package limits is the side of a weir.Engine for limits that are more than a program's own:
// those that several nodes count together, and those that requests bring along. Package weir
// implements it.
package side

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/engine/admission"
	"github.com/weir-counter/weir/internal/engine/replication"
	"github.com/weir-counter/weir/limit"
)

// Engine makes such limits.
type Engine interface {
	// LimitIn is weir.Engine.Limit for the node of that name in a cluster. Every node must
	// have another name, of 1 to MaxLimitNameBytes letters, digits or any of ._-, and the
	// same one for ever.
	//
	// The admissions of a leased or strict limit are journaled whatever its period,
	// those of a node's limit as Limit has it. What a key has used is kept separately for
	// each node whose alone the limit is; leased and strict limits of one name are one.
	LimitIn(node string, where limit.Where, name string, l weir.Limit) (*weir.KeyedLimit, error)

	// LimitOfRecord is the limit that a Record tells of, to decide what another node
	// asks. The error wraps replication.ErrDamagedState for a record that is none.
	LimitOfRecord(record string) (*weir.KeyedLimit, error)

	// DecideAt is weir.Engine.TakeAll, or PeekAll, with the time of the decision by the clock that limits are
	// kept by: monotonic, in ns. beside is nil, or has of each check how much of its limit is as good as used, by others.
	DecideAt(checks []weir.Check, beside []uint64, verdicts []weir.Verdict, take bool) (allowed bool, at int64, err error)

	// ForgetInline forgets what keys have used of the inline limit of a name, or with "" of
	// all: each has its whole burst again. It returns how many states there were here. With
	// a journal, other nodes forget too when they follow the next flush, and a restart
	// brings nothing back; what another node admits meanwhile may stay.
	//
	// Cost: O(keys with limits in use), a partition at a time.
	ForgetInline(name string) (states int, err error)

	// ForgetKeys forgets what the keys that begin with prefix have used of all limits, with their grants and bans: weir.KeyedLimit.Reset of
	// all of them. It returns of how many keys there was something here, each counted for each limit. With a journal, other nodes forget too
	// when they follow the next flush, and a restart brings nothing back; what another node admits meanwhile may stay. The error is
	// weir.CodeInvalidKey for a prefix that is empty or longer than a key, and weir.CodeOverloaded while the journal can take no more.
	//
	// Cost: O(keys with limits in use), a partition at a time.
	ForgetKeys(prefix string) (keys int, err error)

	// Reserved lists the parts of a reservation that is known here, and not over.
	Reserved(id string) []weir.ReservedPart

	// Ban has a key of the limit of a name denied for a time from now, 1 ms to weir.MaxBan, whatever it has used, in place of an earlier ban;
	// 0 lifts it. With a journal, other nodes know when they follow the next flush, and a restart keeps it. It is
	// weir.CodeOverloaded where there is no room for one more. A ban denies nothing by itself: who decides asks for it.
	Ban(name, key string, length time.Duration) error

	// Banned is for how long a key is banned under the limit of a name; 0: it is not.
	Banned(name, key string) time.Duration

	// Bans lists the bans that are not over, at most n, those that end last first.
	//
	// Cost: O(bans).
	Bans(n int) []weir.KeyBan

	// Permits calls f with each key of which permits are held, as far as it is known here: by the name of the limit. f must not call
	// the engine.
	//
	// Cost: O(permits).
	Permits(f func(name, key string, held int))
	// Grants calls f with each grant that is in use. f must not call the engine.
	Grants(f func(name, key string))

	// RefusesReservations is weir.CodeOverloaded while there is no room here for a reservation more.
	RefusesReservations() error

	// InlineNames are the names of the inline limits of which a key has used something, as far as it is known here.
	//
	// Cost: O(keys with limits in use) of one partition.
	InlineNames(key string) []string
}

// Of is that side of an engine.
func Of(engine *weir.Engine) Engine { return replication.Side(engine) }

type side interface {
	Where() limit.Where
	Record() string
	Inline() error
	TakePermit(key string, holder uint64) (admission.Permitted, error)
	RenewPermit(key string, holder uint64) (admission.Permitted, error)
	ReleasePermit(key string, holder uint64) (admission.Permitted, error)
	NoteReserved(key string, n uint64, r weir.Reservation, ago time.Duration, known bool) error
	Known(key string, raw time.Time, list []limit.Admitted) ([]limit.Admitted, time.Duration)
}

func of(l *weir.KeyedLimit) side { return replication.Side(l) }

// Where is the argument of LimitIn; of a limit that weir.Engine.Limit made, leased.
func Where(l *weir.KeyedLimit) limit.Where { return of(l).Where() }

// Record is the limit in bytes: LimitOfRecord of another node's engine makes it again.
func Record(l *weir.KeyedLimit) string { return of(l).Record() }

// Inline makes l a limit that requests bring along, as it is from now on: see
// Engine.ForgetInline. It is for a limit that nothing was asked of yet.
func Inline(l *weir.KeyedLimit) error { return of(l).Inline() }

// NoteReserved notes admissions of a key that were taken a moment ago, at most so long, as reserved: see
// weir.KeyedLimit.Reserve. known: others decide for the key, and this node only knows of it.
func NoteReserved(l *weir.KeyedLimit, key string, n uint64, r weir.Reservation, ago time.Duration, known bool) error {
	return of(l).NoteReserved(key, n, r, ago, known)
}

// Known appends what this engine knows of a key's admissions that still count, the oldest
// first: each at the latest time of day at which it may have been, in ns since 1970. doubt is by
// how much earlier it may have been. It takes nothing. raw is what replication.Clock.UncorrectedWall of the
// engine has just said. Cost: that of a decision, and O(34).
func Known(l *weir.KeyedLimit, key string, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration) {
	return of(l).Known(key, raw, list)
}

// Out is what is out of one key, lent by one node.
type Out = admission.Out

// Lender is the side of an engine for the node that lends parts of limits to others (package
// internal/cluster/grant). What is out is as good as used.
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
func Lending(engine *weir.Engine) Lender { return replication.Side(engine) }

// This part is the side of a weir.Engine that answers questions about some of its
// partitions: a node of a cluster asks others for the parts of an answer that they hold, and
// merges them. This part implements it.

// PartialEngine answers about partitions that it holds; of others it is an error of CodeNotHeld.
type PartialEngine interface {
	// CountIn is weir.Engine.CountAt; of AllKeys, it counts the hits of some partitions that
	// a cut has.
	CountIn(in replication.PartitionSet, at time.Time, key string, w time.Duration) (weir.Count, error)

	// SeriesIn is weir.Engine.Series; of AllKeys, it counts the hits of some partitions that
	// a cut has.
	SeriesIn(in replication.PartitionSet, key string, from, to time.Time, step time.Duration) ([]weir.Point, error)

	// TopIn is weir.Engine.Top of the keys of some partitions.
	TopIn(in replication.PartitionSet, at time.Time, w time.Duration, n int, prefix string) ([]weir.KeyCount, error)

	// KeysIn is weir.Engine.Keys of some partitions.
	KeysIn(in replication.PartitionSet, prefix, after string, limit int) ([]string, error)
}

// PartialOf is that side of an engine.
func PartialOf(engine *weir.Engine) PartialEngine { return replication.Side(engine) }
