package client

import (
	"fmt"

	"github.com/weir-counter/weir/api"
)

// A Receipt is what became of hits that were sent.
type Receipt struct {
	Counted  uint64 `json:"counted"`        // hits, late ones included
	Late     uint64 `json:"late"`           // of these: older than the newest hit of their key
	History  uint64 `json:"history"`        // of these: older than the server's retention; its history has them, and no window
	TooLate  uint64 `json:"too_late"`       // hits not counted: older than what the server keeps
	Rejected int    `json:"rejected_lines"` // elements of the hits sent that were not counted for what they say
	// Reasons are the first 20 of these.
	Reasons []Rejection `json:"rejected"`
	// Durable tells that the hits counted are on the server's disk.
	Durable bool `json:"durable"`
}

// receiptOf is that of one request.
func receiptOf(a api.HitsAnswer) Receipt {
	return Receipt{a.Counted, a.Late, a.History, a.TooLate, a.RejectedLines, a.Rejected, a.Durable}
}

// Add adds what became of further hits.
func (r *Receipt) Add(more Receipt) {
	if more.Counted > 0 {
		r.Durable = more.Durable && (r.Durable || r.Counted == 0)
	}
	r.Counted += more.Counted
	r.Late += more.Late
	r.History += more.History
	r.TooLate += more.TooLate
	r.Rejected += more.Rejected
	r.Reasons = append(r.Reasons, more.Reasons[:min(len(more.Reasons), api.MaxRejected-len(r.Reasons))]...)
}

// String is one line for a person.
func (r Receipt) String() string {
	s := fmt.Sprintf("%d counted, %d late, %d too late, %d rejected", r.Counted, r.Late, r.TooLate, r.Rejected)
	if r.History > 0 {
		s = fmt.Sprintf("%d counted, %d late, %d for history alone, %d too late, %d rejected", r.Counted, r.Late, r.History, r.TooLate, r.Rejected)
	}
	if len(r.Reasons) > 0 {
		s += ", the first one because " + r.Reasons[0].Message
	}
	return s
}
