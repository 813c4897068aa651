package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// What a server writes, a client reads back: times, periods, one answer or several, limits by
// name and by value, and bounds that nobody knows.
func TestSpelling(t *testing.T) {
	at := Time{time.Unix(1_769_860_800, 250_000_000)}
	upper := uint64(3)
	one := CountAnswer{Key: "a", WindowSeconds: 60, At: at, Bounds: Bounds{Lower: 1, Estimate: 2, Upper: &upper}, Freshness: Freshness{AsOf: at}}
	unknown := one
	unknown.Upper = nil
	for _, test := range []struct {
		value, into any
		want        string
	}{
		{at, new(Time), `1769860800.25`},
		{Period(90*time.Second + 1), new(Period), `"90.000000001"`},
		{OneOrCounts[CountAnswer]{one}, new(OneOrCounts[CountAnswer]), `{"key":"a","window_s":60,"at":1769860800.25,"lower":1,"estimate":2,"upper":3,"exact":false,"as_of":1769860800.25}`},
		{
			OneOrCounts[CountAnswer]{one, unknown}, new(OneOrCounts[CountAnswer]),
			`{"counts":[{"key":"a","window_s":60,"at":1769860800.25,"lower":1,"estimate":2,"upper":3,"exact":false,"as_of":1769860800.25},` +
				`{"key":"a","window_s":60,"at":1769860800.25,"lower":1,"estimate":2,"upper":null,"exact":false,"as_of":1769860800.25}]}`,
		},
		{AllowObject{Key: "a"}, new(AllowObject), `{"key":"a"}`},
		{AllowObject{Key: "a", Limit: AllowLimit{Name: "login"}}, new(AllowObject), `{"key":"a","limit":"login"}`},
		{
			AllowObject{Checks: []AllowCheck{{Key: "a", Limit: AllowLimit{Inline: &InlineLimit{N: 5, Per: Period(time.Minute)}}}}, Peek: true}, new(AllowObject),
			`{"checks":[{"key":"a","limit":{"n":5,"per":"60"}}],"peek":true}`,
		},
		{Problem{Status: 400, Code: CodeTooLate, HitsAnswer: &HitsAnswer{TooLate: 1}}, new(Problem), `{"title":"","status":400,"code":"too_late","detail":"","counted":0,"late":0,"too_late":1,"rejected_lines":0,"rejected":null}`},
	} {
		text, err := json.Marshal(test.value)
		if err != nil || string(text) != test.want {
			t.Errorf("%+v: got %s %v, want %s", test.value, text, err, test.want)
		}
		if err := json.Unmarshal(text, test.into); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		again, err := json.Marshal(reflect.ValueOf(test.into).Elem().Interface())
		if err != nil || string(again) != test.want {
			t.Errorf("%s: read and written again: %s %v", text, again, err)
		}
	}
	for _, text := range []string{`"1m30s"`, `"90"`, `90`} {
		var p Period
		if err := json.Unmarshal([]byte(text), &p); err != nil || p != Period(90*time.Second) {
			t.Errorf("%s: %v %v", text, time.Duration(p), err)
		}
	}
}
