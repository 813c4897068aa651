package main

import (
	"bytes"
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
	s, bodies := &server{url: listening.URL}, [][]byte{[]byte("a\n")}
	if err := s.post(t.Context(), bodies, 20); err != nil || posts.Load() != 20 {
		t.Errorf("%d posts, %v", posts.Load(), err)
	}
	answer = `{"counted":999,"late":0}`
	if s.post(t.Context(), bodies, 1) == nil {
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
