package policy

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// MinDenyFor is the shortest Policy.DenyFor; the longest is weir.MaxBan.
const MinDenyFor = time.Second

// denyFor reads for how long a key that was over is denied.
func (p *parser) denyFor(n *yaml.Node) time.Duration {
	if n == nil {
		return 0
	}
	text, ok := p.text(n, "deny_for", "deny_for: 10m")
	if !ok {
		return 0
	}
	d, err := units.ParseDuration(text)
	switch {
	case err != nil:
		p.fault(n.Line, "deny_for", "%v", err)
	case d < MinDenyFor || d > weir.MaxBan:
		p.fault(n.Line, "deny_for", "%s: must be 1s to 366d", units.FormatDuration(d))
	}
	return d
}
