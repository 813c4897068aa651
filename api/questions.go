package api

// TopAnswer lists keys, most hits first.
type TopAnswer struct {
	WindowSeconds int64    `json:"window_s" doc:"The window in seconds."`
	At            Time     `json:"at" doc:"The end of the window."`
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
	StepSeconds int64   `json:"step_s" doc:"The window of each point in seconds."`
	Points      []Point `json:"points" nullable:"false" doc:"The windows (from, from+step], (from+step, from+2*step], ... (to-step, to]."`
	Freshness
}

// Point is the hits in (At-step, At].
type Point struct {
	At Time `json:"at" doc:"The end of the window of this point."`
	Bounds
}

// KeysAnswer lists keys, sorted by their bytes. Next is the After of the following
// page, empty on the last one.
type KeysAnswer struct {
	Keys []string `json:"keys" nullable:"false" doc:"Sorted by their bytes."`
	Next string   `json:"next,omitempty" doc:"There are more: ask again with after set to this."`
	Freshness
}
