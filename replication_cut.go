package weir

import "github.com/weir-counter/weir/internal/replication"

func (r *side) Cut(partition int, c *replication.Cut, withState bool) {
	e := r.engine
	e.keys.Cut(partition, c, withState, func(w *replication.StateWriter) {
		c.Admissions = e.limits.Cut(partition, c.Admissions[:0], w)
	})
}

func (r *side) Confirm(partition int, key string) { r.engine.keys.Confirm(partition, key) }

func (r *side) BoundWaiting(bytes int64, why string) { r.engine.keys.BoundWaiting(bytes, why) }

func (r *side) TakePast(keeps func(key string, second int64) bool) { r.engine.past.Store(&keeps) }

func (r *side) NotePast(until int64) { r.engine.keys.NotePast(until) }

func (r *side) Crowded() bool { return r.engine.keys.Crowded() }

func (r *side) RefuseTakes(why string) { r.engine.limits.RefuseTakes(why) }
