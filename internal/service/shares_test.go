package service_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/policy"
)

// One tenant takes its share of policies, bans, grants, permits, reservations and names of inline limits, and no more; another tenant and the operator go on.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, err := policy.Parse("p", []byte(`limits:
- {name: login, keys: "{tenant}:login:*", limit: 5, per: 1m}
- {name: guess, keys: "{tenant}:guess:*", limit: 1, per: 1h, deny_for: 1h}
- {name: tokens, keys: "{tenant}:tokens", limit: 1000000, per: 1h}
- {name: jobs, keys: "{tenant}:job:*", max: 10000, ttl: 1s}`))
		if err != nil {
			t.Fatal(err)
		}
		text := "identities:\n"
		for name, keys := range map[string]string{"a": `, keys: ["a:"]`, "b": `, keys: ["b:"]`, "root": ""} {
			text += fmt.Sprintf("- {name: %s, permissions: [{role: decide%s}, {role: admin%s}], tokens: [{id: %s, sha256: %x}]}\n", name, keys, keys, name, sha256.Sum256([]byte("weir_"+name+"_secret")))
		}
		set, err := auth.Parse("tokens", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		eng, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		live, err := admit.NewLive(eng, policies)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := access.OpenKept(t.Context(), nil, live, false, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		d := newListener(t, service.Backend{Engine: eng, Tokens: access.NewTokens(set), Policies: live, Kept: kept}, service.Config{Logger: slog.New(slog.DiscardHandler)})
		as := map[string]access.Caller{}
		for _, name := range []string{"a", "b", "root"} {
			d.caller = access.CallerAt("192.0.2.1:1234")
			d.login("weir_" + name + "_secret")
			as[name] = d.caller
		}
		time.Sleep(time.Minute) // who holds permits is known
		ctx, s := t.Context(), d.service
		for what, c := range map[string]struct {
			bound int
			code  api.Code
			take  func(name string, i int) error
			free  func(i int) error // gives one back, of a
		}{
			"policies": {admit.MaxStoredPolicies, api.CodePoliciesFull, func(name string, i int) error {
				_, err := s.PutPolicy(ctx, as[name], fmt.Sprintf("%s%d", name, i), fmt.Sprintf(`{"keys":"%s:x%d","limit":1,"per":"1m"}`, strings.Replace(name, "root", "r", 1), i), admit.PolicyCondition{})
				return err
			}, func(i int) error {
				_, err := s.DeletePolicy(ctx, as["a"], fmt.Sprintf("a%d", i), admit.PolicyCondition{})
				return err
			}},
			"bans": {engine.MaxBans, api.CodeOverloaded, func(name string, i int) error {
				_, err := s.BanKey(ctx, as[name], "login", fmt.Sprintf("%s:login:%d", name, i), time.Hour)
				return err
			}, func(i int) error {
				_, err := s.UnbanKey(ctx, as["a"], "login", fmt.Sprintf("a:login:%d", i))
				return err
			}},
			"reservations": {engine.MaxReservations, api.CodeOverloaded, func(name string, i int) error {
				_, _, err := s.Reserve(as[name], []admit.Request{{Key: name + ":tokens", N: 1}}, limits.Reservation{ID: fmt.Sprint(i), TTL: time.Hour}, new(admit.Decision))
				return err
			}, func(i int) error {
				_, err := s.Settle(ctx, as["a"], fmt.Sprint(i), admit.Used{N: 1}, false)
				return err
			}},
			"grants": {engine.MaxGrants, api.CodeOverloaded, func(name string, i int) error {
				_, err := s.GrantLimit(ctx, as[name], "login", fmt.Sprintf("%s:login:%d", name, i), 1, time.Now().Add(time.Hour))
				return err
			}, func(i int) error {
				_, err := s.GrantLimit(ctx, as["a"], "login", fmt.Sprintf("a:login:%d", i), 0, time.Now().Add(time.Hour))
				return err
			}},
			"permits": {limits.MaxPermits, api.CodeOverloaded, func(name string, i int) error {
				_, err := s.TakePermit(as[name], fmt.Sprintf("%s:job:%d", name, i%2), "jobs")
				return err
			}, func(int) error { time.Sleep(2 * time.Second); return nil }},
			"inline names": {admit.MaxInlineNames, api.CodeOverloaded, func(name string, i int) error {
				return s.Allow(as[name], []admit.Request{{Key: name + ":k", N: 1, Limit: fmt.Sprintf("%s-own-%d", name, i), Inline: &admit.Limit{N: 9, Per: time.Second}}}, false, new(admit.Decision))
			}, func(i int) error {
				_, err := s.ResetLimit(ctx, as["a"], fmt.Sprintf("a-own-%d", i), "a:k")
				return err
			}},
		} {
			share := admit.Share(c.bound)
			for i := range share {
				if err := c.take("a", i); err != nil {
					t.Fatalf("%s: %d of %d: %v", what, i, share, err)
				}
			}
			if e := d.wantCode(c.take("a", share), c.code); !strings.Contains(e.Message, "for some keys only") {
				t.Errorf("%s: %s", what, e.Message)
			}
			for _, other := range []string{"b", "root"} {
				if err := c.take(other, 0); err != nil {
					t.Errorf("%s of %s: %v", what, other, err)
				}
			}
			if err := c.free(0); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			time.Sleep(time.Second) // the share is counted again
			if err := c.take("a", share+1); err != nil {
				t.Errorf("%s once some are free: %v", what, err)
			}
		}
		for name, banned := range map[string]bool{"a": false, "b": true, "root": true} { // a has its share of bans
			key := name + ":guess:1"
			for range 2 {
				if err := s.Allow(as[name], []admit.Request{{Key: key, N: 1}}, false, new(admit.Decision)); err != nil {
					t.Fatal(err)
				}
			}
			if got := eng.Limits().Banned("guess", key) > 0; got != banned {
				t.Errorf("denied for an hour as %s: %v, want %v", name, got, banned)
			}
		}
		// Another node, or start, counts the things that are there at its first request.
		d = newListener(t, service.Backend{Engine: eng, Tokens: access.NewTokens(set), Policies: live, Kept: kept}, service.Config{Logger: slog.New(slog.DiscardHandler)})
		d.login("weir_a_secret")
		_, err = d.service.BanKey(ctx, d.caller, "login", "a:login:more", time.Hour)
		d.wantCode(err, api.CodeOverloaded)
	})
}
