package views

import (
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service"
)

// maxParts bounds the parts of a line.
const maxParts = 90

// parts are the adjoining parts of a window that ends at to.
type parts struct {
	from, to int64 // Unix seconds: the first part begins after from, the last one ends with to
	step     int64 // seconds; the last part may be shorter
}

// partsOf divides the window (to-w, to]. The memory of a counter has slots of 2^level seconds, aligned to the epoch:
// parts of a power of two that end with the last second of a slot are made of whole slots, and so they are
// exact. (At the age of a window w, slots are shorter than w/100, and parts longer.) They also
// stay where they are while time goes on.
func partsOf(to time.Time, w time.Duration) parts {
	seconds, end := int64(w/time.Second), to.Unix()
	step := int64(1)
	for seconds > step*maxParts {
		step *= 2
	}
	from := end - seconds
	from -= mod(from+1, step) // the second before a slot begins
	return parts{from, end, step}
}

func mod(a, b int64) int64 { return (a%b + b) % b }

func (p parts) len() int { return int((p.to - p.from + p.step - 1) / p.step) }

// append adds the questions of a key in all parts, moved back by a while.
func (p parts) append(questions []service.CountQuestion, key string, back time.Duration) []service.CountQuestion {
	for at := p.from; at < p.to; at += p.step {
		end := min(at+p.step, p.to)
		questions = append(questions, service.CountQuestion{Key: key, At: time.Unix(end, 0).Add(-back), Window: time.Duration(end-at) * time.Second})
	}
	return questions
}

// line takes the answers of all parts from the front of bounds.
func (p parts) line(bounds *[]api.Bounds) api.Line {
	of := take(bounds, p.len())
	line := api.Line{From: at(p.from), StepSeconds: p.step, To: at(p.to), Estimate: estimates(of)}
	for _, b := range of {
		if b.Exact {
			continue
		}
		line.Lower, line.Upper = make([]uint64, len(of)), make([]*uint64, len(of))
		for i, b := range of {
			line.Lower[i], line.Upper[i] = b.Lower, b.Upper
		}
		break
	}
	return line
}

func at(seconds int64) api.Time { return api.Time{Time: time.Unix(seconds, 0)} }

func estimates(of []api.Bounds) []uint64 {
	list := make([]uint64, len(of))
	for i, b := range of {
		list[i] = b.Estimate
	}
	return list
}

// take takes n answers from the front.
func take(bounds *[]api.Bounds, n int) []api.Bounds {
	front := (*bounds)[:n]
	*bounds = (*bounds)[n:]
	return front
}
