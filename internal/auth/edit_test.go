package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func create(t *testing.T, path string, n New) string {
	t.Helper()
	text, _, err := Create(path, n)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A token that takes the place of another is good for as long, unless something else is said.
func TestRotationKeepsTheTerm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	create(t, path, New{Identity: "a", Permissions: []Permission{{Role: Read}}, Expires: time.Now().Add(time.Hour)})
	rotate := func(n New) time.Time {
		t.Helper()
		old := load(t, path).Tokens("a")
		n.Identity = "a"
		_, expires, err := Create(path, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := Revoke(path, old[0].ID); err != nil {
			t.Fatal(err)
		}
		if now := load(t, path).Tokens("a"); len(now) != 1 || !now[0].Expires.Equal(expires) {
			t.Errorf("the file has %+v, reported was %s", now, expires)
		}
		return expires
	}
	if left := time.Until(rotate(New{})); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("good for %s, want 1h", left)
	}
	if left := time.Until(rotate(New{Expires: time.Now().Add(2 * time.Hour)})); left < 119*time.Minute {
		t.Errorf("good for %s, want 2h", left)
	}
	if end := rotate(New{Forever: true}); !end.IsZero() {
		t.Errorf("expires at %s", end)
	}
	if end := rotate(New{}); !end.IsZero() {
		t.Errorf("in place of one without end: expires at %s", end)
	}
	text := "identities: [{name: a, permissions: [{role: read}], tokens: [{id: x, sha256: " + strings.Repeat("ab", 32) + ", expires: 2099-01-01T00:00:00Z}]}]"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(path, New{Identity: "a"}); err == nil || !strings.Contains(err.Error(), "for how long") {
		t.Errorf("in place of one of an unknown term: %v", err)
	}
}

// The first token may go into a file that is there and empty, as provisioning and mktemp make them.
func TestCreateInEmptyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Create(path, New{Identity: "ops", Permissions: []Permission{{Role: Read}}}); err != nil || len(load(t, path).Identities()) != 1 {
		t.Error(err)
	}
}

func load(t *testing.T, path string) *Set {
	t.Helper()
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A token is good from its creation until it is revoked, beside one other of its identity.
func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	reader := New{Identity: "shop", Permissions: []Permission{{Role: Read, Keys: []string{"shop:", "shop:a", "cart:"}}, {Role: Decide, Limits: []string{"login"}}}}
	first := create(t, path, reader)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: want 0600", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), first[strings.LastIndexByte(first, '_')+1:]) {
		t.Errorf("the file has the secret: %v", err)
	}
	if err := os.WriteFile(path, append([]byte("# ours\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	second := create(t, path, New{Identity: "shop", Expires: time.Now().Add(time.Hour)})
	live := NewLive(load(t, path))
	for _, token := range []string{first, second} {
		login, err := live.Token(token)
		if err != nil {
			t.Fatal(err)
		}
		if i := login.Identity; i.Name != "shop" || !i.May(Read, "shop:1") || i.May(Read, "sho") || i.May(Ingest, "shop:1") || !i.Permission(Decide).Limit("login") || i.Permission(Decide).Limit("other") {
			t.Errorf("%+v", i)
		}
	}
	if _, _, err := Create(path, New{Identity: "shop"}); err == nil || !strings.Contains(err.Error(), "weir token revoke") {
		t.Errorf("a third token: %v", err)
	}
	if _, _, err := Create(path, reader); err == nil || !strings.Contains(err.Error(), "is there") {
		t.Errorf("other permissions: %v", err)
	}
	login, err := live.Token(first)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := idOf(first)
	if err := Revoke(path, id); err != nil {
		t.Fatal(err)
	}
	if err := Revoke(path, id); err == nil {
		t.Error("revoked twice")
	}
	live.set.Store(load(t, path))
	if _, err := live.Token(first); !errors.Is(err, ErrUnknown) {
		t.Errorf("a revoked token: %v", err)
	}
	if _, err := live.Check(login); !errors.Is(err, ErrUnknown) {
		t.Errorf("a login by a revoked token: %v", err)
	}
	if _, err := live.Password("shop", second); err != nil {
		t.Errorf("the other token: %v", err)
	}
	if _, err := live.Password("cart", second); !errors.Is(err, ErrUnknown) {
		t.Errorf("another's name: %v", err)
	}
	if text, _ := os.ReadFile(path); !strings.HasPrefix(string(text), "# ours\n") {
		t.Errorf("the comment is gone:\n%s", text)
	}
}

// A login ends when its token expires, and an expired one makes space.
func TestExpiry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	text := create(t, path, New{Identity: "a", Permissions: []Permission{{Role: Admin}}, Expires: time.Now().Add(time.Hour)})
	s := load(t, path)
	if _, err := s.byToken(text, time.Now().Add(2*time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("after its time: %v", err)
	}
	if _, _, err := Create(path, New{Identity: "a", Expires: time.Now().Add(-time.Hour)}); err == nil {
		t.Error("created an expired token")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(data), "expires: ", "expires: 2001-01-01T00:00:00Z #", 1)
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewLive(load(t, path)).Token(text); !errors.Is(err, ErrExpired) {
		t.Errorf("expired in the file: %v", err)
	}
	for range 2 {
		create(t, path, New{Identity: "a", Forever: true})
	}
	if n := len(load(t, path).Tokens("a")); n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
}

// Edits at the same time lose nothing.
func TestEditsTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	var all sync.WaitGroup
	for _, name := range strings.Fields("a b c d e f g h") {
		all.Go(func() {
			if _, _, err := Create(path, New{Identity: name, Permissions: []Permission{{Role: Read}}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(load(t, path).Identities()); n != 8 {
		t.Errorf("%d identities, want 8", n)
	}
	wantFiles(t, filepath.Dir(path), 1)
}

// wantFiles wants so many files in a directory: edits leave nothing beside their file.
func wantFiles(t *testing.T, dir string, want int) {
	t.Helper()
	if files, err := os.ReadDir(dir); err != nil || len(files) != want {
		t.Errorf("%d files, want %d: %v, %v", len(files), want, files, err)
	}
}

// To revoke a token there must be a file; an edit that fails makes none.
func TestNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := Revoke(path, "abcdefghij"); err == nil || !strings.Contains(err.Error(), "there is no tokens file "+path) {
		t.Errorf("revoked: %v", err)
	}
	if _, _, err := Create(path, New{Identity: "a"}); err == nil {
		t.Error("created for an identity that is not there")
	}
	wantFiles(t, filepath.Dir(path), 0)
}
