package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestPost(t *testing.T) {
	var posts atomic.Int64
	answer := `{"counted":1000,"late":0}`
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts.Add(1)
		w.Write([]byte(answer))
	}))
	defer listening.Close()
	s, hits := &server{url: listening.URL}, forms()[0].load()
	if err := s.post(t.Context(), hits, 20); err != nil || posts.Load() != 20 {
		t.Errorf("%d posts, %v", posts.Load(), err)
	}
	answer = `{"counted":999,"late":0}`
	if s.post(t.Context(), hits, 1) == nil {
		t.Error("a batch that was not counted passes")
	}
}

func TestBodies(t *testing.T) {
	for _, form := range forms() {
		for i, body := range form.bodies() {
			if n := bytes.Count(body, []byte("\n")); n != batchHits {
				t.Fatalf("%s: body %d has %d lines", form.name, i, n)
			}
		}
	}
}

func TestAsks(t *testing.T) {
	for _, ask := range asks() {
		l := ask.load()
		for _, body := range l.bodies[:100] {
			if !json.Valid(body) {
				t.Fatalf("%s: %s is not JSON", ask.name, body)
			}
		}
		for answer, good := range map[string]bool{"": true, `{"allowed":true,"unmatched":true,"limits":[]}`: false, `{"allowed":false,"limits":[{"remaining":0}]}`: true, `{"code":"x"}`: false} {
			if l.good(200, []byte(answer)) != good {
				t.Errorf("%s: good is %v", answer, !good)
			}
		}
		if l.good(503, []byte(`{"allowed":false,"limits":[{"remaining":0}]}`)) || l.good(404, nil) {
			t.Error("a failure passes")
		}
	}
}
