package api

import "encoding/json"

// CountAnswer is the hits of one key in (At-Window, At].
type CountAnswer struct {
	Key           string `json:"key"`
	WindowSeconds int64  `json:"window_s" doc:"The window in seconds."`
	At            Time   `json:"at" doc:"The end of the window."`
	Bounds
	Freshness
	Source  string        `json:"source,omitempty" doc:"history where the answer is of history, which has all hits until as_of; left out where it is of the windows." example:"history"`
	Regions []RegionCount `json:"regions,omitempty" doc:"The part of each region, with by=region."`
}

// RegionCount is the part of one region in a count of all.
type RegionCount struct {
	Region string `json:"region"`
	Bounds
	Freshness
}

// RateAnswer is a count with its mean hits per second.
type RateAnswer struct {
	CountAnswer
	PerSecond PerSecond `json:"per_second" doc:"The mean rate: lower, estimate and upper by window_s."`
}

// OneOrCounts is one answer as an object of its own, or several as
// {"counts":[...]}.
type OneOrCounts[T any] []T

type several[T any] struct {
	Counts []T `json:"counts"`
}

// MarshalJSON writes the object, or the list.
func (a OneOrCounts[T]) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal(several[T]{a})
}

// UnmarshalJSON reads either.
func (a *OneOrCounts[T]) UnmarshalJSON(b []byte) error {
	var list several[T]
	if err := json.Unmarshal(b, &list); err != nil || list.Counts != nil {
		*a = list.Counts
		return err
	}
	*a = make(OneOrCounts[T], 1)
	return json.Unmarshal(b, &(*a)[0])
}
