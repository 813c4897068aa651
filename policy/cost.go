package policy

import (
	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/units"
)

// cost reads the name of a cost.
func (p *parser) cost(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	name, ok := p.text(n, "cost", "cost: tokens")
	if ok && !isName(name) {
		p.fault(n.Line, "cost", "%q: write 1 to %d letters, digits or any of ._/-", units.Excerpt(name), weir.MaxLimitNameBytes)
	}
	return name
}
