package service

import (
	"fmt"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
)

// CheckBatch refuses a request of more than MaxBatch hits before any of them counts: who
// sends too much sends all of it again, in parts, and nothing counts twice.
func (s *Service) CheckBatch(hits int) error {
	if hits <= s.cfg.MaxBatch {
		return nil
	}
	return &Error{Code: api.CodeTooManyLines,
		Message: fmt.Sprintf("the body has more than %d lines (--max-batch): nothing was counted, send it in parts", s.cfg.MaxBatch)}
}

// Ingest begins a request of hits, whose Tally is t. It fails when the caller may count none.
func (s *Service) Ingest(c Caller, t *Tally) error {
	may, err := s.enter(c, auth.Ingest)
	t.reset(may)
	return err
}

// Hit counts n hits of a key that CheckHitKey finds nothing wrong with, at a time. What becomes of them is
// noted in t: a hit that the engine does not take is no error. It fails when no further
// hit can be counted: give that to Verdict. The engine keeps a copy of the key if it keeps
// it: this is the path of millions a second, and allocates nothing.
func (s *Service) Hit(t *Tally, at time.Time, key string, n uint64) error {
	if !t.admits(s.engine, key) {
		return nil
	}
	outcome, err := s.engine.HitAt(at, key, n)
	return t.took(n, outcome, err)
}
