package archive

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
)

// places are a new directory and a new bucket, with parameters.
func places(t *testing.T, parameters string) map[string]*Place {
	t.Helper()
	list := map[string]*Place{}
	for name, url := range map[string]string{"file": "file:" + filepath.Join(t.TempDir(), "backups") + "?", "s3": startS3(t)} {
		p, err := OpenPlace(url+parameters, false)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = p
	}
	return list
}

// startS3 is the URL of a bucket of a server of S3, up to its parameters.
func startS3(t *testing.T) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	objects := s3mem.New()
	if err := objects.CreateBucket("weir"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(gofakes3.New(objects).Server())
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authority)
	return "s3://weir/of/this?endpoint=" + server.URL + "&"
}

const journal = "0123456789abcdef"

// take writes a backup without a key.
func take(_ context.Context, w io.Writer) error {
	b, err := backup.NewWriter(w, backup.Info{Partitions: 1, First: 1})
	if err != nil {
		return err
	}
	return b.End()
}

func noise(n int) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("weir"), n/4))
		return err
	}
}

func names(t *testing.T, p *Place) (list []string) {
	t.Helper()
	all, err := p.List(t.Context())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, b := range all {
		list = append(list, b.Name)
	}
	return list
}

// A backup comes back as it was written, from a directory and from S3, encrypted and larger than one part of an upload.
func TestMake(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("# of a test\n"+identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, p := range places(t, "age="+identity.Recipient().String()) {
		for _, n := range []int{0, 4, partBytes, 2*partBytes + 400} {
			b, err := p.create(t.Context(), journal, noise(n))
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if got := names(t, p); len(got) == 0 || got[len(got)-1] != b.Name || b.Bytes < int64(n) || !strings.HasSuffix(b.Name, journal+".backup.age") {
				t.Errorf("%s: %+v of %v", kind, b, got)
			}
			back, err := p.Open(t.Context(), b.Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decrypt(back, ""); err == nil || !strings.Contains(err.Error(), "--identity") {
				t.Error(err)
			}
			if back, err = p.Open(t.Context(), b.Name); err != nil {
				t.Fatal(err)
			}
			plain, err := Decrypt(back, keys)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(plain); err != nil || len(got) != n {
				t.Errorf("%s: %d bytes of %d, %v", kind, len(got), n, err)
			}
			_ = back.Close()
		}
	}
}

// What fails, is cut, or is no backup leaves nothing in the list.
func TestMakeFails(t *testing.T) {
	broken := errors.New("the journal ends")
	for kind, p := range places(t, "") {
		for what, take := range map[string]func(context.Context, io.Writer) error{
			"fails at once": func(context.Context, io.Writer) error { return broken },
			"fails later": func(ctx context.Context, w io.Writer) error {
				return errors.Join(noise(partBytes+400)(ctx, w), broken)
			},
			"ends early": func(ctx context.Context, w io.Writer) error {
				var whole bytes.Buffer
				err := take(ctx, &whole)
				_, _ = w.Write(whole.Bytes()[:whole.Len()-1])
				return err
			},
			"is no backup":       noise(400),
			"a reader that ends": func(context.Context, io.Writer) error { return io.EOF },
		} {
			if b, err := p.create(t.Context(), journal, take); err == nil {
				t.Errorf("%s, %s: %+v", kind, what, b)
			}
			if got := names(t, p); len(got) > 0 {
				t.Errorf("%s, %s: left %v", kind, what, got)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if _, err := p.create(ctx, journal, func(ctx context.Context, w io.Writer) error {
			cancel(broken)
			<-ctx.Done()
			return context.Cause(ctx)
		}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := p.create(t.Context(), journal, take); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if got := names(t, p); len(got) != 1 {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// A process that was killed while it made a backup leaves a part that no list has, and that the next backup of the journal overwrites.
// A link in its place is not followed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	p, err := OpenPlace("file:"+dir, false)
	if err != nil {
		t.Fatal(err)
	}
	part, other := filepath.Join(dir, ".weir-"+journal+".backup.part"), filepath.Join(dir, "other")
	for _, file := range []string{part, other} {
		if err := os.WriteFile(file, bytes.Repeat([]byte("half"), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, p); len(got) > 0 {
		t.Error(got)
	}
	if _, err := p.create(t.Context(), journal, take); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.Symlink(other, part); err != nil {
		t.Fatal(err)
	}
	if _, err := p.create(t.Context(), journal, take); err == nil {
		t.Error("a link was followed")
	}
	if is, err := os.Stat(other); err != nil || is.Size() != 4000 {
		t.Error("another file was overwritten")
	}
}

// Old backups go, the newest stays whatever its age, and files and backups of others stay.
func TestPrune(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for keep, want := range map[string]int{"1": 1, "3": 3, "24": 5, "2h": 3, "90m": 2, "all": 5} {
		for kind, p := range places(t, "keep="+keep) {
			var list []Backup
			for i := range 5 {
				taken := at.Add(time.Duration(i) * time.Hour)
				b := Backup{Name: fmt.Sprintf("weir-%s-%s.backup", taken.Format(timeLayout), journal), Taken: api.Time{Time: taken}}
				list = append(list, b)
				if err := p.put(t.Context(), b.Name, func(w io.Writer) error { return noise(4)(t.Context(), w) }); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.prune(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			got := names(t, p)
			if len(got) != max(want, 3) {
				t.Errorf("%s, keep=%s: %v after the first", kind, keep, got)
			}
			if err := p.prune(t.Context(), list[5-len(got):]); err != nil {
				t.Fatal(err)
			}
			got = names(t, p)
			if len(got) != want || got[len(got)-1] != list[4].Name {
				t.Errorf("%s, keep=%s: %v", kind, keep, got)
			}
			if err := p.prune(t.Context(), list[4:]); err != nil || len(names(t, p)) != want {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

func TestOpenPlace(t *testing.T) {
	for url, want := range map[string]string{
		"":                                  "it must be file:/directory",
		"/var/backups":                      "it must be file:/directory",
		"file:":                             "it must be file:/directory",
		"s3://":                             "it must be file:/directory",
		"ftp://host/dir":                    "it must be file:/directory",
		"file:/x?evry=1h":                   "did you mean every?",
		"file:/x?every=1h&every=2h":         "stands twice",
		"file:/x?every=0":                   "every=0",
		"file:/x?every=hour":                "every=hour",
		"file:/x?keep=0":                    "keep=0",
		"file:/x?keep=-1":                   "keep=-1",
		"file:/x?keep=30m":                  "keep=30m",
		"file:/x?age=age1x":                 "recipient of age",
		"file:/x%":                          "write % as %25",
		"s3://bkt?endpoint=host:9000":       "write https://host:port",
		"s3://bkt/p?endpoint=http://h:9000": "in the clear",
		"s3://b":                            "shorter than 3",
		"s3://id:secret@bkt":                "leave them out",
		"s3://bkt?endpoint=https://id:secret@h:9000": "leave them out",
	} {
		if err := (Config{To: url}).Validate(); url != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
	for _, url := range []string{
		"", "file:/x", "file:///x?every=10m&keep=7d", "file:x%20y?keep=all", "s3://bkt", "s3://bkt/p/q?region=eu-central-1", "s3://bkt?endpoint=https://h:9000", "s3://bkt?endpoint=http://127.0.0.1:9000",
	} {
		if err := (Config{To: url}).Validate(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := (Config{To: "s3://bkt?endpoint=http://h:9000", Insecure: true}).Validate(); err != nil {
		t.Error(err)
	}
}
