package api

// TopAnswer lists keys, most hits first.
type TopAnswer struct {
	WindowSeconds int64    `json:"window_s" doc:"The window in seconds; with align, how long the time is."`
	At            Time     `json:"at" doc:"The end of the window; with align, the last second of the time."`
	Start         *Time    `json:"start,omitempty" doc:"With align: the first second of the time."`
	Align         string   `json:"align,omitempty" doc:"hour, day, week, month or year, if that was asked for: then the time is of whole ones."`
	Zone          string   `json:"tz,omitempty" doc:"The time zone of align."`
	Source        string   `json:"source,omitempty" doc:"history, with align."`
	Prefix        string   `json:"prefix"`
	Keys          []TopKey `json:"keys" nullable:"false" doc:"Most hits first."`
	Freshness
}

// TopKey is one line of a TopAnswer.
type TopKey struct {
	Key string `json:"key"`
	Bounds
}

// SeriesAnswer is the hits of a key in adjoining windows of one step.
type SeriesAnswer struct {
	Key         string  `json:"key"`
	From        Time    `json:"from" doc:"The start of the first window: not before the from that was asked for."`
	To          Time    `json:"to" doc:"The end of the last window, a whole second."`
	StepSeconds int64   `json:"step_s" doc:"The window of each point in seconds; 0 with align, whose spans are not all as long."`
	Align       string  `json:"align,omitempty" doc:"hour, day, week, month or year, if that was asked for: then each point has its start, and at is the last second of its span."`
	Zone        string  `json:"tz,omitempty" doc:"The time zone of align."`
	Source      string  `json:"source,omitempty" doc:"Of what an answer with align is made: history, windows where there is no history or it can't be reached, or history+windows where history may lack hits of some spans and the windows say how many at most."`
	Points      []Point `json:"points" nullable:"false" doc:"The windows (from, from+step], (from+step, from+2*step], ... (to-step, to]."`
	Freshness
}

// Point is the hits in (At-step, At].
type Point struct {
	At    Time  `json:"at" doc:"The end of the window of this point."`
	Start *Time `json:"start,omitempty" doc:"With align: the first second of the span."`
	Bounds
}

// DeletedAnswer says how many keys of a prefix were deleted.
type DeletedAnswer struct {
	Deleted int    `json:"deleted" doc:"How many keys: at most 1000 at a time."`
	Reset   int    `json:"reset,omitempty" doc:"With limits=true: of how many keys, each counted for each limit, the node that was asked knew that they had used something, or were banned or granted more."`
	Next    string `json:"next,omitempty" doc:"There may be more: delete again with after set to this."`
}

// KeysAnswer lists keys, sorted by their bytes. Next is the After of the following
// page, empty on the last one.
type KeysAnswer struct {
	Keys []string `json:"keys" nullable:"false" doc:"Sorted by their bytes."`
	Next string   `json:"next,omitempty" doc:"There are more: ask again with after set to this."`
	Freshness
}
