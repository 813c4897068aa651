package ingest

import (
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// Receipts are on disk for ten minutes: those that held a problem document of HTTP, with its title
// and status, are read too.
func TestReceiptsOfEarlierBuilds(t *testing.T) {
	const hits = `"counted":2,"late":0,"too_late":0,"rejected_lines":1,"rejected":[{"line":2,"code":"invalid_count","message":"m"}]`
	var tally Tally
	tally.Reset(access.Rights{})
	if first, err := tally.Recall([]byte(`{` + hits + `}`)); err != nil || first != nil || tally.Counted != 2 || len(tally.Rejected) != 1 {
		t.Errorf("%+v, %v, %v", tally, first, err)
	}
	tally.Reset(access.Rights{})
	first, err := tally.Recall([]byte(`{"title":"Bad Request","status":400,"code":"body_broken","detail":"cut",` + hits + `}`))
	e := request.As(first)
	if err != nil || e.Code != api.CodeBodyBroken || e.Message != "cut" || e.Hits == nil || e.Hits.Counted != 2 {
		t.Errorf("%+v", e)
	}
	if again := tally.Receipt(e); len(again) == 0 {
		t.Error("no receipt")
	} else if first, err := tally.Recall(again); err != nil || request.As(first).Message != "cut" {
		t.Errorf("%s: %v, %v", again, first, err)
	}
	if _, err := tally.Recall([]byte("not JSON")); err == nil {
		t.Error("no error of what is not JSON")
	}
}
