package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/durable"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service"
)

// What the server gives is what a restore takes.
func TestBackup(t *testing.T) {
	a, _ := newDurableAPI(t, t.TempDir())
	a.post("a 3\nb 4")
	r := a.get("/v1/backup")
	if r.status != http.StatusOK || r.header.Get("Content-Type") != backupType {
		t.Fatalf("%d %v", r.status, r.header)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := durable.Restore(t.Context(), strings.NewReader(r.body), dir, nil); err != nil {
		t.Fatal(err)
	}
	restored, _ := newDurableAPI(t, dir)
	restored.wantCount("a", 3)
	restored.wantCount("*", 7)
}

func (stuck) Backup(_ context.Context, w io.Writer) error { return errors.New("no disk") }

// half is a disk that goes away in the middle.
type half struct{ stuck }

func (half) Backup(_ context.Context, w io.Writer) error {
	_, err := w.Write(make([]byte, 1<<20))
	return errors.Join(err, errors.New("the disk went away"))
}

func TestBackupFails(t *testing.T) {
	a := newTestAPI(t, engine.Config{}, options{})
	a.wantProblem(a.get("/v1/backup"), api.CodeEphemeral, 409)
	a = newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: stuck{}}})
	a.wantProblem(a.get("/v1/backup"), api.CodeStopping, 503)
	a = newTestAPI(t, engine.Config{}, options{Backend: service.Backend{Journal: half{}}})
	resp, err := http.Get(a.url + "/v1/backup")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a backup that broke off looks whole")
	}
}
