package shadow

// parts are those that are done with. There are never more of them than chunks of the
// log are under way.
type parts chan *part

// partsKept is how many of them wait to be used again.
const partsKept = 16

func (ps parts) take() *part {
	select {
	case p := <-ps:
		return p
	default:
		return &part{}
	}
}

func (ps parts) give(p *part) {
	*p = part{asked: p.asked[:0], routes: p.routes[:0], questions: p.questions[:0]}
	select {
	case ps <- p:
	default:
	}
}
