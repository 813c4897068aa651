package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/policy"
)

// tokensFile has one identity by the fields of YAML, whose token is weir_ID_secret.
func tokensFile(id, fields string) string {
	return fmt.Sprintf("identities: [{name: shop, %s, tokens: [{id: %s, sha256: %x}]}]", fields, id, sha256.Sum256([]byte("weir_"+id+"_secret")))
}

func lockedListener(t *testing.T, fields string, cfg service.Config) *listener {
	t.Helper()
	set, err := auth.Parse("tokens", []byte(tokensFile("a", fields)))
	if err != nil {
		t.Fatal(err)
	}
	d := newListener(t, service.Backend{Tokens: access.NewTokens(set)}, cfg)
	d.login("weir_a_secret")
	return d
}

func (d *listener) login(token string) {
	d.Helper()
	var err error
	if d.caller, err = d.service.WithToken(d.caller, token); err != nil {
		d.Fatal(err)
	}
}

// Hits of others' keys are refused, one by one; the zero caller may nothing.
func TestIngestOfSomeKeys(t *testing.T) {
	d := lockedListener(t, `permissions: [{role: ingest, keys: ["in:"]}]`, service.Config{})
	tally, _, err := d.hit("", "in:a 1 out:a 1 in:a 1", false)
	if err != nil || tally.Counted != 2 || len(tally.Rejected) != 1 || tally.Rejected[0].Code != api.CodeForbidden {
		t.Errorf("%+v, %v", tally, err)
	}
	_, _, err = d.hit("", "out:a 1", false)
	d.wantCode(err, api.CodeForbidden)
	_, err = d.service.Count(t.Context(), d.caller, queries.CountQuery{Keys: []string{"in:a"}})
	d.wantCode(err, api.CodeForbidden)
	accounts := d.service.Accounts()
	if len(accounts) != 1 || accounts[0].Identity != "shop" || accounts[0].Hits != 2 || accounts[0].Requests != 3 || accounts[0].Forbidden != 3 {
		t.Errorf("%+v", accounts)
	}
	d.caller = access.Caller{}
	_, _, err = d.hit("", "in:a 1", false)
	d.wantCode(err, api.CodeUnauthorized)
	if unauthorized := d.service.Tokens().Unauthorized; unauthorized != 1 {
		t.Errorf("%d unauthorized", unauthorized)
	}
}

// No identity learns what became of another's request by its idempotency key.
func TestIdempotencyKeysAreOnesOwn(t *testing.T) {
	file := "identities:\n"
	for _, name := range []string{"a", "b"} {
		file += fmt.Sprintf("- {name: %s, permissions: [{role: ingest}, {role: read}], tokens: [{id: %s, sha256: %x}]}\n", name, name, sha256.Sum256([]byte("weir_"+name+"_secret")))
	}
	set, err := auth.Parse("tokens", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	d := newListener(t, service.Backend{Tokens: access.NewTokens(set)}, service.Config{})
	for i, token := range []string{"weir_a_secret", "weir_b_secret", "weir_a_secret"} {
		d.login(token)
		if _, repeated, err := d.hit("k", "x 1", false); err != nil || repeated != (i == 2) {
			t.Errorf("%d: repeated %v, %v", i, repeated, err)
		}
	}
	d.wantCount("x", 2)
}

// A reservation is the identity's that made it: its id admits nobody else, and settles nothing of others. A role's prefix is of the
// keys that are asked, and not of those that are counted.
func TestReservationsOfOthers(t *testing.T) {
	policies, err := policy.Parse("p", []byte("limits: [{name: all, keys: '*:{user}', by: '{user}', limit: 10, per: 1h}]"))
	if err != nil {
		t.Fatal(err)
	}
	file := "identities:\n"
	for _, name := range []string{"a", "b"} {
		file += fmt.Sprintf("- {name: %s, permissions: [{role: decide, keys: ['%s:']}], tokens: [{id: %s, sha256: %x}]}\n", name, name, name, sha256.Sum256([]byte("weir_"+name+"_secret")))
	}
	set, err := auth.Parse("tokens", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	live, err := admit.NewLive(e, policies)
	if err != nil {
		t.Fatal(err)
	}
	d := newListener(t, service.Backend{Engine: e, Tokens: access.NewTokens(set), Policies: live}, service.Config{})
	var said admit.Decision
	reserve := func(key string) (known bool, err error) {
		_, known, err = d.service.Reserve(d.caller, []admit.Request{{Key: key, N: 1}}, limits.Reservation{ID: "x"}, &said)
		return known, err
	}
	for i, name := range []string{"a", "b", "a", "b"} {
		d.login("weir_" + name + "_secret")
		if known, err := reserve(name + ":k"); err != nil || known != (i > 1) {
			t.Errorf("%d: known %v, %v", i, known, err)
		}
	}
	for i, name := range []string{"a", "a", "b"} {
		d.login("weir_" + name + "_secret")
		if settled, err := d.service.Settle(t.Context(), d.caller, "x", admit.Used{}, false); err != nil || settled.ID != "x" || settled.Again != (i == 1) {
			t.Errorf("%d: %+v, %v", i, settled, err)
		}
	}
}

// Ceilings hold, say when there is space again, and leave the keys that are there alone.
func TestCeilings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := lockedListener(t, "permissions: [{role: ingest}], ceilings: {requests_per_second: 5, hits_per_second: 4, new_keys_per_minute: 2}", service.Config{})
		tally, _, err := d.hit("", "a 9 b 1 c 1 a 1", false)
		if err != nil || tally.Counted != 11 || tally.RejectedLines != 1 || tally.Rejected[0].Code != api.CodeCeiling || tally.RetryFrom != 0 {
			t.Errorf("new keys: %+v, %v", tally, err)
		}
		_, _, err = d.hit("", "a 1 a 1", false)
		if e := d.wantCode(err, api.CodeCeiling); e.RetryAfter <= 0 || e.RetryAfter > time.Second || e.Hits.RetryFrom != 1 || e.Hits.RejectedLines != 2 {
			t.Errorf("hits: %+v", e)
		}
		time.Sleep(2 * time.Second)
		_, _, err = d.hit("", "c 1", false)
		if e := d.wantCode(err, api.CodeCeiling); e.RetryAfter < 50*time.Second || e.Hits.RetryFrom != 0 {
			t.Errorf("new keys alone: %+v", e)
		}
		for range 4 {
			_, _, err = d.hit("", "", false)
			d.wantCode(err, api.CodeEmptyBody)
		}
		_, _, err = d.hit("", "a 1", false)
		d.wantCode(err, api.CodeCeiling)
		time.Sleep(time.Minute)
		if _, _, err = d.hit("", "c 1", false); err != nil {
			t.Error(err)
		}
		accounts := d.service.Accounts()
		if a := accounts[0]; a.OverRequests != 1 || a.OverHits != 1 || a.OverNewKeys != 2 {
			t.Errorf("%+v", a)
		}
	})
}

// Each action of role admin is noted: who, what, how it ended; refused ones too.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	d := lockedListener(t, `permissions: [{role: admin, keys: ["in:"]}]`, service.Config{Audit: slog.New(slog.NewTextHandler(&log, nil))})
	d.wantCode(d.service.Delete(t.Context(), d.caller, "in:a"), api.CodeUnknownKey)
	d.wantCode(d.service.Delete(t.Context(), d.caller, "out:a"), api.CodeForbidden)
	d.wantCode(d.service.Backup(t.Context(), access.CallerAt("192.0.2.7:1"), &log), api.CodeUnauthorized)
	for _, want := range []string{
		`msg=audit who=shop action="delete key" target=in:a outcome=unknown_key remote=192.0.2.1`,
		`msg=audit who=shop action="delete key" target=out:a outcome=forbidden remote=192.0.2.1`,
		`msg=audit who=anybody action=backup target=all outcome=unauthorized remote=192.0.2.7`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, &log)
		}
	}
}

// A token that was taken out of the file ends what was begun with it; a file that is wrong
// changes nothing, and is an alarm.
func TestTokensFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokensFile("a", "permissions: [{role: read}]"))
	tokens, err := access.ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	noted := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := tokens.Watch(ctx, slog.New(notes{slog.DiscardHandler, noted}))
	defer ended()
	defer cancel()
	<-noted
	d := newListener(t, service.Backend{Tokens: tokens}, service.Config{})
	d.login("weir_a_secret")
	d.wantCount("x", 0)
	write("identities: {")
	tokens.Reload()
	if got := <-noted; got != "tokens file" {
		t.Errorf("noted %q", got)
	}
	d.wantCount("x", 0)
	if alarms := d.service.Alarms(); len(alarms) != 1 || alarms[0].Code != "tokens_file_bad" {
		t.Errorf("%+v", alarms)
	}
	write(tokensFile("b", "permissions: [{role: read}]"))
	for got := ""; got != "tokens are in use"; got = <-noted {
		tokens.Reload()
	}
	d.wantCode(d.service.Identify(d.caller), api.CodeUnauthorized)
	d.login("weir_b_secret")
	d.wantCount("x", 0)
	if alarms := d.service.Alarms(); len(alarms) != 0 {
		t.Errorf("%+v", alarms)
	}
}

// Who decides on some keys learns neither names nor keys of policies that are for others.
func TestPoliciesOfOthersAreNotTold(t *testing.T) {
	policies, err := policy.Parse("p", []byte(`limits:
- {name: secretplan, keys: "other:{user}", limit: 1, per: 1m}
- {name: own, keys: "shop:{user}:login", limit: 1, per: 1m}`))
	if err != nil {
		t.Fatal(err)
	}
	for fields, names := range map[string]string{
		`permissions: [{role: decide, keys: ["shop:"]}]`:                                  "nope secretplan",
		`permissions: [{role: decide, keys: ["shop:"], limits: [nope, secretplan, own]}]`: "nope secretplan",
		`permissions: [{role: decide, limits: [nope, other]}]`:                            "nope",
	} {
		set, err := auth.Parse("tokens", []byte(tokensFile("a", fields)))
		if err != nil {
			t.Fatal(err)
		}
		eng, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { eng.Close() })
		live, err := admit.NewLive(eng, policies)
		if err != nil {
			t.Fatal(err)
		}
		d := newListener(t, service.Backend{Engine: eng, Tokens: access.NewTokens(set), Policies: live}, service.Config{})
		d.login("weir_a_secret")
		for name := range strings.FieldsSeq(names) {
			err := d.service.Allow(d.caller, []admit.Request{{Key: "shop:x", N: 1, Limit: name}}, true, new(admit.Decision))
			if e := d.wantCode(err, api.CodeUnknownLimit); e.Message != "there is no policy "+name+" for this key" {
				t.Errorf("%s, %s: %s", fields, name, e.Message)
			}
		}
		if names == "nope" {
			continue
		}
		err = d.service.Allow(d.caller, []admit.Request{{Key: "shop:x", N: 1, Limit: "own"}}, true, new(admit.Decision))
		if e := d.wantCode(err, api.CodeInvalidKey); !strings.Contains(e.Message, "shop:{user}:login") {
			t.Errorf("of its own: %s", e.Message)
		}
	}
}

// Another node than the one that reserved can't settle what is of a node's own limit: it settles the rest, and says so each time.
func TestSettleWhatIsOfAnotherNode(t *testing.T) {
	policies, err := policy.Parse("p", []byte("limits: [{name: all, keys: 'k:*', limit: 10, per: 1h, where: strict}, {name: each, keys: 'k:*', limit: 10, per: 1h, where: node}]"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var nodes []*listener
	for _, name := range []string{"n1", "n2"} {
		live, err := admit.NewClusterLive(e, policies, admit.Cluster{Node: name}) // as if each followed the other at once
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, newListener(t, service.Backend{Engine: e, Policies: live, Node: name}, service.Config{}))
	}
	var said admit.Decision
	if _, _, err := nodes[0].service.Reserve(nodes[0].caller, []admit.Request{{Key: "k:a", N: 5}}, limits.Reservation{ID: "x"}, &said); err != nil || !said.Allowed {
		t.Fatal(err)
	}
	for range 2 {
		_, err := nodes[1].service.Settle(t.Context(), nodes[1].caller, "x", admit.Used{N: 1}, false)
		if refused := nodes[1].wantCode(err, api.CodeNotHeld); !strings.Contains(refused.Message, "limit each") {
			t.Errorf("%s", refused.Message)
		}
	}
	done, err := nodes[0].service.Settle(t.Context(), nodes[0].caller, "x", admit.Used{N: 1}, false)
	if err != nil || len(done.Limits) != 2 || done.Again || done.Limits[0].Refunded+done.Limits[1].Refunded != 4 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A repeated request to reserve that another node admitted a moment ago is no denial, though that took all there was.
func TestReserveAgainWhereNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, err := policy.Parse("p", []byte("limits: [{name: all, keys: 'k:*', limit: 10, per: 1h}]"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		live, err := admit.NewClusterLive(e, policies, admit.Cluster{Node: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		d := newListener(t, service.Backend{Engine: e, Policies: live, Node: "n2", Cluster: unreachable{}}, service.Config{})
		var said admit.Decision
		reserve := func(id string) (string, bool, error) {
			return d.service.Reserve(d.caller, []admit.Request{{Key: "k:a", N: 10}}, limits.Reservation{ID: id}, &said)
		}
		if _, _, err := reserve("first"); err != nil || !said.Allowed {
			t.Fatal(err)
		}
		content := e.Limits().Reserved("first")[0].Content
		go func() { // what the other node reserved arrives after a flush
			time.Sleep(100 * time.Millisecond)
			keyed, _ := live.Limit("all")
			if _, err := keyed.NoteReserved("k:a", 10, engine.Reservation{ID: "x", Until: time.Now().Add(time.Minute), Content: content, Parts: 1}, 0, true); err != nil {
				t.Error(err)
			}
		}()
		if id, known, err := reserve("x"); id != "x" || !known || err != nil {
			t.Errorf("%q, %v, %v: want it known", id, known, err)
		}
	})
}

// unreachable is a cluster with a node that does not answer.
type unreachable struct{ queries.Cluster }

func (unreachable) Fresh(ctx context.Context) (uint64, time.Time, error) {
	<-ctx.Done()
	return 0, time.Time{}, &api.Error{Code: api.CodeNotFresh, Field: "fresh", Missing: []string{"n3"}, Message: "newer hits of n3 may be missing"}
}

// While a third node is unreachable, a reservation is settled as soon as the asked node knows it. One that it does not
// know can be asked for again: the unreachable node may have made it.
func TestSettleWhileANodeIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies, err := policy.Parse("p", []byte("limits: [{name: all, keys: 'k:*', limit: 10, per: 1h}]"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		live, err := admit.NewClusterLive(e, policies, admit.Cluster{Node: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		d := newListener(t, service.Backend{Engine: e, Policies: live, Node: "n2", Cluster: unreachable{}}, service.Config{})
		begin := time.Now()
		_, err = d.service.Settle(t.Context(), d.caller, "x", admit.Used{N: 1}, false)
		if refused := d.wantCode(err, api.CodeNotHeld); !strings.Contains(refused.Message, "n3") || time.Since(begin) != 2*time.Second {
			t.Errorf("after %v: %s", time.Since(begin), refused.Message)
		}
		begin = time.Now()
		go func() { // what another node reserved arrives after a flush
			time.Sleep(100 * time.Millisecond)
			var said admit.Decision
			if _, _, err := d.service.Reserve(d.caller, []admit.Request{{Key: "k:a", N: 5}}, limits.Reservation{ID: "x"}, &said); err != nil || !said.Allowed {
				t.Errorf("reserve: %v", err)
			}
		}()
		done, err := d.service.Settle(t.Context(), d.caller, "x", admit.Used{N: 1}, false)
		if err != nil || len(done.Limits) != 1 || done.Limits[0].Refunded != 4 || time.Since(begin) > 200*time.Millisecond {
			t.Errorf("after %v: %+v, %v", time.Since(begin), done, err)
		}
	})
}
