package policy

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// warns tells whether a limit that lets a request pass has as much of its burst used as it warns of.
func (r *Result) warns() bool {
	if r.warn == 0 || !r.Allowed || r.Away != "" || r.Remaining >= r.Limit.Burst {
		return false
	}
	used := r.Limit.Burst - r.Remaining
	return used >= r.Limit.Burst/100*uint64(r.warn)+(r.Limit.Burst%100*uint64(r.warn)+99)/100
}

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
		p.fault(n.Line, "warn", "%q: write from which share of the burst on the answer warns, 1%% to 100%%, for example `warn: 80%%`", short(text))
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
