package limits

import (
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
)

// Known appends what this engine knows of a key's admissions that still count, the oldest
// first: each at the latest time of day at which it may have been, in ns since 1970. doubt is by
// how much earlier it may have been. It takes nothing. raw is what replication.Clock.UncorrectedWall of the
// engine has just said. Cost: that of a decision, and O(34).
func Known(l *weir.KeyedLimit, key string, raw time.Time, list []limit.Admitted) (known []limit.Admitted, doubt time.Duration) {
	return of(l).Known(key, raw, list)
}
