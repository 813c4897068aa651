package tally

import (
	"encoding/json"
	"errors"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/failure"
)

// maxReceiptBytes bounds an answer that is kept for repeats, in bytes of JSON.
const maxReceiptBytes = 8 << 10

// receipt is what is kept of a request: its answer and, if it failed, why. It is JSON, which
// is on disk for ten minutes.
type receipt struct {
	*api.HitsAnswer
	Code   api.Code `json:"code,omitempty"`
	Field  string   `json:"field,omitempty"`
	Detail string   `json:"detail,omitempty"`
}

// Receipt is t and why its request failed, nil if it did not. So that it is small, fewer
// of the rejected lines are listed if they are long ones, in the first answer too.
func (t *Tally) Receipt(failed error) []byte {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	var e *failure.Error
	if errors.As(failed, &e) {
		r.Code, r.Field, r.Detail = e.Code, e.Field, e.Message
	}
	for {
		b, err := json.Marshal(r)
		if err != nil {
			panic(err) // strings and numbers only
		}
		if len(b) <= maxReceiptBytes || len(t.Rejected) == 0 {
			return b
		}
		t.Rejected = t.Rejected[:len(t.Rejected)/2]
	}
}

// Recall is the inverse of receipt: it makes t what it was, and returns the error of the first request. err says why it
// can't.
func (t *Tally) Recall(stored []byte) (first, err error) {
	r := receipt{HitsAnswer: &t.HitsAnswer}
	if err := json.Unmarshal(stored, &r); err != nil {
		return nil, err
	}
	if r.Code == "" {
		return nil, nil
	}
	return &failure.Error{Code: r.Code, Field: r.Field, Message: r.Detail, Hits: &t.HitsAnswer}, nil
}
