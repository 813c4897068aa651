package weir

import (
	"time"

	"github.com/weir-counter/weir/limit"
)

func (s *limitSide) Known(key string, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration) {
	if checkKey(key) != nil {
		return list, 0
	}
	return s.engine.limits.Known(s.plan.Load(), s.engine.keys.PartitionOf(key), key, raw, list)
}
