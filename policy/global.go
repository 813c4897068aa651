package policy

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// MinGlobalInterval is the shortest interval of a limit that regions share without parts: what others admitted is known
// some seconds later, and a shorter limit would be in effect one for each region.
const MinGlobalInterval = 10 * time.Second

// checkGlobal tells whether regions can share a policy without parts.
func (p *parser) checkGlobal(made *parsedPolicy, fields map[string]*yaml.Node, line int) {
	switch {
	case made.Limit.Calendar.Unit != limit.NoUnit:
		p.fault(fields["per"].Line, "per", "regions share no quota by the calendar without parts: write a period as 1h, or `regions` in place of `within: shared`")
	case made.Limit.Algorithm != limit.Window:
		p.fault(fields["algorithm"].Line, "algorithm", "regions share limits of `algorithm: window` alone without parts: remove it, or write `regions` in place of `within: shared`")
	case made.Wait > 0:
		p.fault(fields["wait"].Line, "wait", "nobody waits for what other regions have used: remove it, or write `regions` in place of `within: shared`")
	default:
		p.checkGlobalInterval(made.Limit, "burst", line)
	}
}

// checkGlobalInterval tells whether the interval of a limit is long enough for regions to share it without parts.
func (p *parser) checkGlobalInterval(of weir.Limit, field string, line int) {
	if of.Interval() < MinGlobalInterval {
		p.fault(line, field, "the burst is back after %s: regions know of each other some seconds later, so a limit that they share without parts needs %s or more; write a longer per with as much more of limit and burst, or `regions` in place of `within: shared`", units.FormatDuration(of.Interval()), units.FormatDuration(MinGlobalInterval))
	}
}
