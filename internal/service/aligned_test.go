package service_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/history/calendar"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
)

// A history that has read nothing yet does not say that there were no hits.
func TestAlignedBeforeHistoryHasRead(t *testing.T) {
	t.Parallel()
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Hit("k")
	for _, asOf := range []time.Time{{}, time.UnixMilli(0)} {
		h := &remembered{total: engine.Count{}, asOf: asOf}
		s, err := service.New(service.Backend{Engine: e, History: h}, service.Config{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		answer, err := s.Aligned(t.Context(), access.CallerAt("127.0.0.1:1"), queries.AlignedQuery{Key: "k", Spans: queries.Spans{From: now, To: now.Add(time.Second), Unit: calendar.Month, Zone: time.UTC}})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Points) != 1 || answer.Points[0].Estimate != 1 || answer.Source != "windows" {
			t.Errorf("as of %v: %s %+v", asOf, answer.Source, answer.Points)
		}
	}
}
