package policy

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/units"
)

// MaxWait is the longest Policy.Wait.
const MaxWait = 10 * time.Second

// wait reads how long a request may wait.
func (p *parser) wait(n *yaml.Node) time.Duration {
	if n == nil {
		return 0
	}
	text, ok := p.text(n, "wait", "wait: 200ms")
	if !ok {
		return 0
	}
	wait, err := units.ParseDuration(text)
	switch {
	case err != nil:
		p.fault(n.Line, "wait", "%v", err)
	case wait < time.Millisecond || wait > MaxWait:
		p.fault(n.Line, "wait", "%s: must be 1ms to %s", units.FormatDuration(wait), units.FormatDuration(MaxWait))
	}
	return wait
}
