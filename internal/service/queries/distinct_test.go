package queries

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/distinct"
	"github.com/weir-counter/weir/internal/engine"
)

// slowIDs are other nodes that take a time for the ids of a key.
type slowIDs struct {
	Answers
	takes time.Duration
	asked int
}

func (s *slowIDs) Distinct(ctx context.Context, _ uint64, q api.CountQuestion) (*distinct.Set, uint64, api.Freshness, error) {
	s.asked++
	select {
	case <-ctx.Done():
		return nil, 0, api.Freshness{}, ctx.Err()
	case <-time.After(s.takes):
	}
	set := distinct.New(24 * 3600)
	set.Add(q.At.Unix()-100, 1)
	set.Add(q.At.Unix()-1000, 2)
	return set, 0, api.Freshness{}, nil
}

func askIDs(t *testing.T, slow *slowIDs, upTo uint64, keys int) (*Counting, error) {
	t.Helper()
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := New(Parts{Sources: &Sources{engine: e}})
	into := &Counting{}
	for key := range keys {
		for _, w := range []time.Duration{5 * time.Minute, time.Hour, time.Minute} {
			into.questions = append(into.questions, api.CountQuestion{Key: string(rune('a' + key)), At: time.Unix(1_000_000, 0), Window: w})
			into.Answers = append(into.Answers, api.CountAnswer{})
		}
	}
	return into, s.addDistinct(t.Context(), &Asked{Answers: slow, upTo: upTo}, &CountQuery{}, into)
}

// The ids of a key are asked for once, for all windows.
func TestIDsOfAllWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowIDs{takes: time.Millisecond}
		into, err := askIDs(t, slow, 0, 2)
		if err != nil || slow.asked != 2 {
			t.Fatal(slow.asked, err)
		}
		for i, want := range []uint64{1, 2, 0, 1, 2, 0} {
			if d := into.Answers[i].Distinct; d == nil || d.Lower != want {
				t.Errorf("answer %d: %+v, want %d", i, d, want)
			}
		}
	})
}

// All keys of a question together have the time that one has.
func TestIDsInTime(t *testing.T) {
	for upTo, within := range map[uint64]time.Duration{0: idsLeast, 7: answerLeast} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := askIDs(t, &slowIDs{takes: 600 * time.Millisecond}, upTo, 20)
			if late, is := errors.AsType[*api.Error](err); !is || late.Code != api.CodeNotHeld || time.Since(began) != within {
				t.Error(err, time.Since(began))
			}
		})
	}
}
