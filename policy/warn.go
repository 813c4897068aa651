package policy

import (
	"strconv"
	"strings"

	"github.com/weir-counter/weir/internal/units"
	"go.yaml.in/yaml/v4"
)

// warn reads a share of the burst, such as 80%.
func (p *parser) warn(n *yaml.Node) uint8 {
	if n == nil {
		return 0
	}
	text, ok := p.text(n, "warn", "warn: 80%")
	if !ok {
		return 0
	}
	percent, ok := percentOf(text)
	if !ok {
		p.fault(n.Line, "warn", "%q: write from which share of the burst on the answer warns, 1%% to 100%%, for example `warn: 80%%`", units.Excerpt(text))
		return 0
	}
	return percent
}

// percentOf reads 1% to 100%.
func percentOf(text string) (percent uint8, ok bool) {
	number, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 8)
	return uint8(n), err == nil && isShare && n >= 1 && n <= 100
}
