package auth

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) {
		t.Helper()
		if err := replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(example)
	live := NewLive(load(t, path))
	ctx, cancel := context.WithCancel(t.Context())
	reload, reports := make(chan struct{}), make(chan error, 10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		live.Watch(ctx, path, reload, func(err error) { reports <- err })
	}()
	defer func() { cancel(); <-ended }()
	write("identities: []")
	if err := <-reports; err != nil || len(live.Set().Identities()) != 0 {
		t.Errorf("no identities: %v, %d", err, len(live.Set().Identities()))
	}
	write("identities: {")
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "stay until the file is corrected") {
		t.Errorf("not YAML: %v", err)
	}
	write(example)
	if err := <-reports; err != nil || len(live.Set().Identities()) != 2 {
		t.Errorf("corrected: %v", err)
	}
	reload <- struct{}{}
	if err := <-reports; err != nil {
		t.Errorf("a reload: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := <-reports; err == nil || !strings.Contains(err.Error(), "the file is gone") || len(live.Set().Identities()) != 2 {
		t.Errorf("gone: %v", err)
	}
}

func BenchmarkToken(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	text, _, err := Create(path, New{Identity: "a", Permissions: []Permission{{Role: Read}}})
	if err != nil {
		b.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		b.Fatal(err)
	}
	live := NewLive(s)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := live.Token(text); err != nil {
			b.Fatal(err)
		}
	}
}
