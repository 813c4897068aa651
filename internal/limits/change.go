package limits

import (
	"time"

	"github.com/weir-counter/weir"
)

// Change is what somebody does to what a key has used of a limit, beside requests.
type Change byte

const (
	NoChange Change = iota
	Refund          // weir.KeyedLimit.Refund
	Reset           // weir.KeyedLimit.Reset
	Grant           // weir.KeyedLimit.Grant
	Changes         // how many there are
)

// Changed is what came of a Change.
type Changed struct {
	Was   bool         // there was something to forget
	Freed uint64       // by how many more are free for a refund
	After weir.Verdict // what the limit says then
}

// Make makes the change to a key, with the n and the time of the method that it stands for.
func (c Change) Make(l *weir.KeyedLimit, key string, n uint64, at time.Time) (made Changed, err error) {
	switch c {
	case Refund:
		made.Freed, err = l.Refund(key, n, at)
	case Reset:
		made.Was, err = l.Reset(key)
	case Grant:
		err = l.Grant(key, n, at)
	}
	if err == nil {
		made.After, err = l.Peek(key, 0)
	}
	return made, err
}
