package body

import (
	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service"
)

// readInline reads a limit that the request brings along.
func (p *AllowParser) readInline(r *admit.Request) *service.Error {
	p.inline = append(p.inline, weir.Limit{})
	l := &p.inline[len(p.inline)-1]
	outer := p.within
	p.within += "limit."
	seen, failure := p.object(inlineMembers, func(member int) *service.Error {
		switch inlineMembers[member] {
		case "name":
			return p.readName(r, "name")
		case "n":
			return p.readCount(&l.N, "n", 1)
		case "burst":
			return p.readCount(&l.Burst, "burst", 1)
		case "per":
			return p.readPer(l)
		}
		return p.readAlgorithm(l)
	})
	const needed = 1<<1 | 1<<2 // n and per
	if failure == nil && seen&needed != needed {
		failure = p.wrong(api.CodeInvalidLimit, "", `a limit needs n and per, for example {"n":100,"per":"1m"}`)
	}
	p.within = outer
	r.Inline = l
	return failure
}

// readPer reads a duration, as text or in seconds.
func (p *AllowParser) readPer(l *weir.Limit) (failure *service.Error) {
	text, ok := p.scanner.number()
	if !ok {
		text, ok = p.scanner.str(&p.scratch)
	}
	if !ok {
		return p.wrong(api.CodeInvalidLimit, "per", `it must be a duration like "1m", or a number of seconds`)
	}
	per, err := units.ParseDuration(view(text)) // keeps no part of it
	if err != nil {
		return p.wrong(api.CodeInvalidLimit, "per", err.Error())
	}
	l.Per = per
	return nil
}

func (p *AllowParser) readAlgorithm(l *weir.Limit) *service.Error {
	word, ok := p.scanner.str(&p.scratch)
	if !ok {
		return p.wrong(api.CodeInvalidLimit, "algorithm", "it must be window, fixed or gcra")
	}
	for _, a := range []limit.Algorithm{limit.Window, limit.Fixed, limit.GCRA} {
		if a.String() == string(word) {
			l.Algorithm = a
			return nil
		}
	}
	return p.wrong(api.CodeInvalidLimit, "algorithm", quoteField(word)+": it must be window, fixed or gcra")
}
