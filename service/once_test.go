package service

import (
	"log/slog"
	"testing"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
)

// Receipts are on disk for ten minutes: those that held a problem document of HTTP, with its title
// and status, are read too.
func TestReceiptsOfEarlierBuilds(t *testing.T) {
	engine, err := weir.New(weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	s, err := New(Backend{Engine: engine}, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const hits = `"counted":2,"late":0,"too_late":0,"rejected_lines":1,"rejected":[{"line":2,"code":"invalid_count","message":"m"}]`
	var tally Tally
	tally.reset(access{})
	if err := s.recall(&tally, []byte(`{`+hits+`}`)); err != nil || tally.Counted != 2 || len(tally.Rejected) != 1 {
		t.Errorf("%+v, %v", tally, err)
	}
	tally.reset(access{})
	e := AsError(s.recall(&tally, []byte(`{"title":"Bad Request","status":400,"code":"body_broken","detail":"cut",`+hits+`}`)))
	if e.Code != api.CodeBodyBroken || e.Message != "cut" || e.Hits == nil || e.Hits.Counted != 2 {
		t.Errorf("%+v", e)
	}
	if again := tally.receipt(e); len(again) == 0 || AsError(s.recall(&tally, again)).Message != "cut" {
		t.Errorf("%s", again)
	}
	if err := s.recall(&tally, []byte("not JSON")); AsError(err).Code != api.CodeInternal {
		t.Error(err)
	}
}
