package service

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/ingest"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// A request for another's key is refused before anything is looked up, so that no answer, error or time depends on
// whether the key is there. The test does not measure time: it takes the engine and the policies away,
// so that whoever looks at them panics.
func TestForeignKeysAreNotLookedUp(t *testing.T) {
	t.Parallel()
	const file = `identities: [{name: shop, ceilings: {new_keys_per_minute: 5, hits_per_second: 5}, tokens: [{id: a, sha256: %x}],
		permissions: [{role: ingest, keys: ["in:"]}, {role: decide, keys: ["in:"]}, {role: read, keys: ["in:"]}, {role: admin, keys: ["in:"]}]}]`
	set, err := auth.Parse("tokens", fmt.Appendf(nil, file, sha256.Sum256([]byte("weir_a_secret"))))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	policies, err := admit.NewLive(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Backend{Engine: eng, Policies: policies, Tokens: access.NewTokens(set)}, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := s.WithToken(access.CallerAt("10.0.0.1:1"), "weir_a_secret")
	if err != nil {
		t.Fatal(err)
	}
	eng.Close()
	*eng, *policies = engine.Engine{}, admit.Live{}

	ctx := t.Context()
	asks := map[string]func(key string) error{
		"hit": func(key string) error {
			var tally ingest.Tally
			if err := s.Ingest(caller, &tally); err != nil {
				return err
			}
			tally.Line = 1
			return s.Verdict(&tally, s.Hit(&tally, time.Now(), key, 1))
		},
		"count": func(key string) error {
			_, err := s.Count(ctx, caller, queries.CountQuery{Keys: []string{key}})
			return err
		},
		"counts": func(key string) error {
			_, err := s.Count(ctx, caller, queries.CountQuery{Keys: []string{"in:b", key}})
			return err
		},
		"rate": func(key string) error {
			_, err := s.Rate(ctx, caller, queries.CountQuery{Keys: []string{key}})
			return err
		},
		"series": func(key string) error {
			_, err := s.Series(ctx, caller, queries.SeriesQuery{Key: key, Step: time.Minute})
			return err
		},
		"top": func(key string) error {
			_, err := s.Top(ctx, caller, queries.TopQuery{Window: time.Minute, N: 1, Prefix: key})
			return err
		},
		"keys": func(key string) error {
			_, err := s.Keys(ctx, caller, queries.KeysQuery{Limit: 1, Prefix: key})
			return err
		},
		"delete": func(key string) error { return s.Delete(ctx, caller, key) },
		"allow": func(key string) error {
			return s.Allow(caller, []admit.Request{{Key: "in:b", N: 1}, {Key: key, N: 1}}, false, new(admit.Decision))
		},
		"peek": func(key string) error {
			return s.Allow(caller, []admit.Request{{Key: key, N: 1, Inline: &engine.Limit{N: 1, Per: time.Second}}}, true, new(admit.Decision))
		},
	}
	for name, ask := range asks {
		if !panics(func() { _ = ask("in:a") }) {
			t.Errorf("%s of an own key looks nothing up: this test proves nothing of it", name)
		}
		if panics(func() { err = ask("out:a") }) {
			t.Errorf("%s looks another's key up", name)
		} else if e := request.As(err); err == nil || e.Code != api.CodeForbidden {
			t.Errorf("%s of another's key: %v", name, err)
		}
	}
	if err := s.PermitCounters(caller, [][]byte{[]byte("in:a"), []byte("out:a")}); err == nil || request.As(err).Code != api.CodeForbidden {
		t.Errorf("counters of others: %v", err)
	}
}

func panics(do func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	do()
	return false
}
