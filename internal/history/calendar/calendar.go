// Package calendar has the hours, days, weeks, months and years of a time zone in seconds. It is pure. A day may have 23 or 25
// hours, and need not begin at midnight. Export writes the hits in such spans as CSV.
package calendar

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Unit is a span of the calendar.
type Unit string

// The units.
const (
	Hour  Unit = "hour"
	Day   Unit = "day"
	Week  Unit = "week" // from Monday on
	Month Unit = "month"
	Year  Unit = "year"
)

// ParseUnit reads a unit by its name.
func ParseUnit(text string) (Unit, error) {
	switch u := Unit(text); u {
	case Hour, Day, Week, Month, Year:
		return u, nil
	}
	return "", fmt.Errorf("%.40q is not hour, day, week, month or year", text)
}

// Start is where the span begins that t is in, in t's zone.
func (u Unit) Start(t time.Time) time.Time {
	if u == Hour {
		_, offset := t.Zone()
		local := t.Unix() + int64(offset)
		return time.Unix(t.Unix()-(local%3600+3600)%3600, 0).In(t.Location())
	}
	year, month, day := t.Date()
	switch u {
	case Week:
		day -= (int(t.Weekday()) + 6) % 7
	case Month:
		day = 1
	case Year:
		month, day = time.January, 1
	}
	return midnight(year, month, day, t.Location())
}

// Next is where the span after the one that begins at start begins.
func (u Unit) Next(start time.Time) time.Time {
	year, month, day := start.Date()
	switch u {
	case Hour:
		next := start.Add(time.Hour)
		if aligned := u.Start(next); aligned.After(start) { // the zone may have moved by half an hour
			return aligned
		}
		return next
	case Week:
		day += 7
	case Month:
		month, day = month+1, 1
	case Year:
		year, month, day = year+1, time.January, 1
	default:
		day++
	}
	return midnight(year, month, day, start.Location())
}

func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	want := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if y, m, d := t.Date(); time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(want) { // the clocks pass over midnight
		_, t = t.ZoneBounds()
	}
	return t
}

// Bounds returns where spans of a unit begin, Unix seconds, from the span of from to the first one that ends at to or later. The
// last bound is the end of that span. More than most spans are an error.
func Bounds(u Unit, from, to time.Time, zone *time.Location, most int) ([]int64, error) {
	if !from.Before(to) {
		return nil, fmt.Errorf("from must be before to")
	}
	at := u.Start(from.In(zone))
	bounds := []int64{at.Unix()}
	for at.Before(to) {
		at = u.Next(at)
		if bounds = append(bounds, at.Unix()); len(bounds) > most+1 {
			return nil, fmt.Errorf("from and to make more than %d %ss", most, u)
		}
	}
	return bounds, nil
}

// Export writes rows of history as CSV, one after the other: its memory does not grow with their number.
type Export struct{ to *csv.Writer }

// NewExport begins a file with the names of the columns.
func NewExport(to io.Writer) (*Export, error) {
	e := &Export{csv.NewWriter(to)}
	return e, e.to.Write([]string{"key", "start", "hits", "doubt"})
}

// Write adds a row: the hits of a key in a span that begins at start, Unix seconds, are n to n+doubt.
func (e *Export) Write(key string, start int64, n, doubt uint64) error {
	return e.to.Write([]string{csvText(key), time.Unix(start, 0).UTC().Format(time.RFC3339), strconv.FormatUint(n, 10), strconv.FormatUint(doubt, 10)})
}

// csvText puts a ' before a key that a spreadsheet would take for a formula, or that begins with ' itself. Without it, the text is
// the key.
func csvText(key string) string {
	if key != "" && (key[0] < ' ' || strings.IndexByte("=+-@'", key[0]) >= 0) {
		return "'" + key
	}
	return key
}

// Close ends the file; without it, it is not whole.
func (e *Export) Close() error {
	e.to.Flush()
	return e.to.Error()
}
