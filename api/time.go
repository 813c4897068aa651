package api

import (
	"encoding/json"
	"math"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// Time is a point in time that JSON carries as Unix seconds, whole when the time is.
type Time struct{ time.Time }

// MarshalJSON writes Unix seconds.
func (t Time) MarshalJSON() ([]byte, error) { return units.AppendUnix(nil, t.Time), nil }

// UnmarshalJSON reads Unix seconds.
func (t *Time) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = units.ParseTime(string(b))
	return err
}

// Millis cuts a time to milliseconds: what was complete then, was before.
func Millis(t time.Time) Time { return Time{t.Truncate(time.Millisecond)} }

// Period is a duration that JSON carries as a text of seconds, to the nanosecond: one
// that was rounded would be another limit.
type Period time.Duration

// MarshalJSON writes seconds in quotes.
func (p Period) MarshalJSON() ([]byte, error) {
	return json.Marshal(units.FormatUnix(time.Unix(0, int64(p))))
}

// UnmarshalJSON reads a number of seconds, or a text like "1m30s".
func (p *Period) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	d, err := units.ParseDuration(text)
	*p = Period(d)
	return err
}

// fromSeconds rounds: 4.35 s as a float are a little less.
func fromSeconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
