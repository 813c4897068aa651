package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/limit"
)

// FuzzAllow checks the reader of POST /v1/allow against encoding/json.
func FuzzAllow(f *testing.F) {
	for _, seed := range []string{
		`{"key":"user:42"}`, ` { "key" : "a" , "limit" : "login", "n" : 0 , "peek" : true } `, `{"key":"a","limit":null,"n":null,"peek":null}`,
		`{"key":"a","limit":{"n":1000,"per":"1s","burst":1000,"algorithm":"window","name":"x"}}`, `{"key":"a","limit":{"n":1,"per":0.5}}`,
		`{"checks":[{"key":"a"},{"key":"b","limit":"c","n":3}],"peek":false}`, `{"checks":[]}`, `{"checks":[{"key":"a"}],"n":1}`, `{"checks":[{"key":"a"},]}`,
		`{"k\u0065y":"\u00e9\ud83d\ude00"}`, `{"key":"\ud800"}`, `{"key":"a","n":1e3}`, `{"key":"a","n":35184372088833}`, `{"key":"a","limit":{"n":1,"per":"1m","algorithm":"GCRA"}}`,
		`{"key":"a","x":1}`, `{"key":"a","key":"b"}`, `{"key":"a"}}`, `{"key":"a","n":01}`, `[]`, `{`, `nullx`, `{"key":"a","peek":truefalse}`, `{"key":"a","limit":{"n":1,"per":1e2}}`,
	} {
		f.Add([]byte(seed))
	}
	p := NewAllowParser()
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		problem := p.Parse(body)
		want, peek, err := naiveAllow(body)
		if (problem == nil) != (err == nil) {
			t.Fatalf("%q: problem %+v, want %v", body, problem, err)
		}
		if err == nil && (!reflect.DeepEqual(p.Requests, want) || p.Peek != peek) {
			t.Fatalf("%q: got %+v, peek %v; want %+v, %v", body, p.Requests, p.Peek, want, peek)
		}
		if !bytes.Equal(before, body) {
			t.Fatalf("%q was changed to %q", before, body)
		}
	})
}

var errNaive = errors.New("refused")

// naiveAllow reads a body with encoding/json, object by object.
func naiveAllow(body []byte) (requests []admit.Request, peek bool, err error) {
	if !json.Valid(body) || !utf8.Valid(body) || loneSurrogate(body) {
		return nil, false, errNaive
	}
	top, err := naiveObject(body, allowMembers)
	if err != nil {
		return nil, false, err
	}
	if raw, has := top["peek"]; has && json.Unmarshal(raw, &peek) != nil {
		return nil, false, errNaive
	}
	checks, has := top["checks"]
	if !has {
		one, err := naiveCheck(top)
		return []admit.Request{one}, peek, err
	}
	var elements []json.RawMessage
	if json.Unmarshal(checks, &elements) != nil || len(elements) < 1 || len(elements) > engine.MaxChecks || top["key"] != nil || top["limit"] != nil || top["n"] != nil || top["costs"] != nil {
		return nil, false, errNaive
	}
	for _, element := range elements {
		check, err := naiveObject(element, checkMembers)
		if err != nil {
			return nil, false, err
		}
		one, err := naiveCheck(check)
		if err != nil {
			return nil, false, err
		}
		requests = append(requests, one)
	}
	return requests, peek, nil
}

func naiveCheck(members map[string]json.RawMessage) (r admit.Request, err error) {
	r.N = 1
	if members["key"] == nil || members["key"][0] != '"' {
		return r, errNaive
	}
	err = errors.Join(json.Unmarshal(members["key"], &r.Key), naiveNumber(members["n"], &r.N, 0))
	if err != nil || r.Key == "" || len(r.Key) > engine.MaxKeyBytes {
		return r, errNaive
	}
	if raw := members["costs"]; raw != nil {
		if r.Costs, err = naiveCosts(raw); err != nil {
			return r, err
		}
	}
	switch l := members["limit"]; {
	case l == nil, string(l) == "null":
	case l[0] == '"':
		if err = json.Unmarshal(l, &r.Limit); r.Limit == "" {
			err = errNaive
		}
	default:
		r.Inline, r.Limit, err = naiveInline(l)
	}
	return r, err
}

func naiveCosts(raw json.RawMessage) ([]admit.Cost, error) {
	costs := []admit.Cost{}
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errNaive
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		field, isText := name.(string)
		one := admit.Cost{Field: field}
		if err != nil || !isText || seen[field] || len(costs) == admit.MaxCosts || d.Decode(&value) != nil || string(value) == "null" || naiveNumber(value, &one.N, 0) != nil {
			return nil, errNaive
		}
		seen[field] = true
		costs = append(costs, one)
	}
	return costs, nil
}

func naiveInline(raw json.RawMessage) (*engine.Limit, string, error) {
	var l engine.Limit
	var name string
	members, err := naiveObject(raw, inlineMembers)
	if err != nil || members["n"] == nil || string(members["n"]) == "null" || members["per"] == nil || string(members["burst"]) == "null" {
		return nil, "", errNaive
	}
	if raw := members["name"]; raw != nil {
		if raw[0] != '"' || json.Unmarshal(raw, &name) != nil || name == "" {
			return nil, "", errNaive
		}
	}
	per := string(members["per"])
	if per[0] == '"' {
		err = json.Unmarshal(members["per"], &per)
	}
	var bad error
	l.Per, bad = units.ParseDuration(per)
	err = errors.Join(err, bad, naiveNumber(members["n"], &l.N, 1), naiveNumber(members["burst"], &l.Burst, 1))
	if raw := members["algorithm"]; raw != nil {
		var word string
		if raw[0] != '"' || json.Unmarshal(raw, &word) != nil {
			return nil, "", errNaive
		}
		at := map[string]limit.Algorithm{"window": limit.Window, "fixed": limit.Fixed, "gcra": limit.GCRA}
		var known bool
		if l.Algorithm, known = at[word]; !known {
			return nil, "", errNaive
		}
	}
	return &l, name, err
}

func naiveNumber(raw json.RawMessage, to *uint64, least uint64) error {
	if raw == nil || string(raw) == "null" && least == 0 {
		return nil
	}
	if json.Unmarshal(raw, to) != nil || *to < least || *to > limit.MaxBurst || string(raw) == "-0" {
		return errNaive
	}
	return nil
}

// naiveObject takes an object apart, and refuses members that are not known or come twice.
func naiveObject(raw []byte, known []string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errNaive
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if members[name.(string)] != nil || indexOf(known, []byte(name.(string))) < 0 {
			return nil, errNaive
		}
		members[name.(string)] = value
	}
	return members, nil
}

// What a request leaves in the reader is not seen by the next one.
func TestAllowParserIsUsedAgain(t *testing.T) {
	p := NewAllowParser()
	for _, body := range []string{`{"checks":[{"key":"a","limit":{"n":1,"per":"1s"}},{"key":"b"}],"peek":true}`, `{"checks":[{"key":"a"},{"n":1}]}`} {
		p.Parse([]byte(body))
		if problem := p.Parse([]byte(`{"key":"c"}`)); problem != nil || len(p.Requests) != 1 || !reflect.DeepEqual(p.Requests[0], admit.Request{Key: "c", N: 1}) || p.Peek {
			t.Errorf("after %s: %+v, %+v", body, p.Requests, problem)
		}
	}
	body := []byte(`{"key":"user:42","limit":"login"}`)
	if allocations := testing.AllocsPerRun(100, func() { p.Parse(body) }); allocations > 2 {
		t.Errorf("%v allocations for a body", allocations)
	}
	key := p.Requests[0].Key
	copy(body, bytes.Repeat([]byte("x"), len(body)))
	if key != "user:42" {
		t.Error("the key is a view of the body, which is written over")
	}
}
