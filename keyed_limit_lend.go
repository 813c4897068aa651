package weir

import (
	"time"

	"github.com/weir-counter/weir/internal/admission"
)

func (r *side) Now() int64 { return r.engine.limits.Clock.Now() }

func (r *side) DecideBeside(checks []Check, beside []uint64, verdicts []Verdict, take bool) (allowed bool, err error) {
	allowed, _, err = r.engine.decideAll(checks, beside, verdicts, take)
	return allowed, err
}

func (r *side) DecideAt(checks []Check, beside []uint64, verdicts []Verdict, take bool) (allowed bool, at int64, err error) {
	return r.engine.decideAll(checks, beside, verdicts, take)
}

func (r *side) Use(l *KeyedLimit, key string, at int64, n uint64) {
	r.engine.limits.Use(l.plan.Load(), r.engine.keys.PartitionOf(key), key, at, n)
}

func (r *side) SetOut(l *KeyedLimit, holder, key string, held time.Duration, out uint64) error {
	return r.engine.limits.SetOut(l.plan.Load(), holder, r.engine.keys.PartitionOf(key), key, held, out)
}

func (r *side) Outs(of func(partition int) bool, f func(admission.Out)) {
	r.engine.limits.Outs(of, f)
}
