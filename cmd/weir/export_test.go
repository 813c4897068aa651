package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is CSV, and not made under the name of another format.
func TestExportFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serveOnce(t, filepath.Join(dir, "data"), func(server string) {
		path := filepath.Join(dir, "a.csv")
		mustWeir(t, exitOK, "", "export", path, "--server", server)
		if got, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(got, []byte("key,start,")) {
			t.Errorf("begins with %.10q; %v", got, err)
		}
		path = filepath.Join(dir, "a.parquet")
		if got := mustWeir(t, exitUsage, "", "export", path, "--server", server); !strings.Contains(got, "writes CSV") {
			t.Error(got)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("it was made")
		}
	})
}

// What goes together is said where one of two is missing.
func TestQuestionsThatNeedMore(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"series", "k", "--tz", "Europe/Berlin"}, "tz needs align=hour, day, week, month or year"},
		{[]string{"series", "k", "--align", "day", "--step", "1h"}, "step: align=day says how long the spans are: give step or align, not both"},
		{[]string{"count", "k", "--by", "region"}, "by=region needs a server with --region, and scope=global"},
		{[]string{"hit", "k", "--at", "2001-01-01T00:00:00Z"}, "the hit is older than what the server keeps (--retention, with history --history-keep)"},
	} {
		if got := mustWeir(t, exitFailure, "", append(test.args, "--server", server)...); !strings.Contains(got, test.want) {
			t.Errorf("%v: %s, want %s", test.args, got, test.want)
		}
	}
}
