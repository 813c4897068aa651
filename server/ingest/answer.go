package ingest

import (
	"encoding/json"
	"strconv"

	"github.com/weir-counter/weir/api"
)

// jsonType is the Content-Type of answers, which nobody writes to.
var jsonType = []string{"application/json"}

// appendAnswer appends what encoding/json makes of an answer, and a newline. That of a
// request of which all hits were counted, as nearly every one is, needs no reflection.
func appendAnswer(b []byte, a *api.HitsAnswer) []byte {
	if len(a.Rejected) > 0 {
		text, err := json.Marshal(a)
		if err != nil {
			panic(err) // numbers and strings only
		}
		return append(append(b, text...), '\n')
	}
	b = strconv.AppendUint(append(b, `{"counted":`...), a.Counted, 10)
	b = strconv.AppendUint(append(b, `,"late":`...), a.Late, 10)
	if a.History > 0 {
		b = strconv.AppendUint(append(b, `,"history":`...), a.History, 10)
	}
	b = strconv.AppendUint(append(b, `,"too_late":`...), a.TooLate, 10)
	b = strconv.AppendInt(append(b, `,"rejected_lines":`...), int64(a.RejectedLines), 10)
	b = append(b, `,"rejected":[]`...)
	if a.RetryFrom != 0 {
		b = strconv.AppendInt(append(b, `,"retry_from":`...), int64(a.RetryFrom), 10)
	}
	if a.Durable {
		b = append(b, `,"durable":true`...)
	}
	return append(b, '}', '\n')
}
