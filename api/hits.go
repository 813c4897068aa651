package api

// HitsAnswer is what became of a body of hits: the answer of POST /v1/hits,
// and part of its problem documents.
type HitsAnswer struct {
	Counted       uint64         `json:"counted" doc:"Hits counted (the sum of n), late ones included."`
	Late          uint64         `json:"late" doc:"How many of counted were older than the newest hit of their key."`
	History       uint64         `json:"history,omitempty" doc:"How many of counted were older than the retention: the history has them, and no window."`
	TooLate       uint64         `json:"too_late" doc:"Hits not counted: older than the retention, and than the days that the history keeps."`
	RejectedLines int            `json:"rejected_lines" doc:"Lines not counted because of what they say."`
	Rejected      []RejectedLine `json:"rejected" nullable:"false" doc:"The first 20 of them."`
	RetryFrom     int            `json:"retry_from,omitempty" doc:"The journal is behind: this line and those after it were refused as overloaded. Send them again later, under another Idempotency-Key."`
	Durable       bool           `json:"durable,omitempty" doc:"The hits counted are on disk."`
}

// MaxRejected is how many rejected lines a HitsAnswer lists.
const MaxRejected = 20

// RejectedLine is why a hit was not counted.
type RejectedLine struct {
	Line    int    `json:"line" doc:"Number of the line, or of the element of an array, from 1."`
	Code    Code   `json:"code" example:"invalid_count" doc:"Stable name of the reason."`
	Message string `json:"message"`
}
