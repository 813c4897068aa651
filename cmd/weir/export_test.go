package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The end of a file's name says that it is Parquet; --format is above that.
func TestExportFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serveOnce(t, filepath.Join(dir, "data"), func(server string) {
		for _, test := range []struct {
			name, begin string
			flags       []string
		}{
			{"a.parquet", "PAR1", nil},
			{"a.csv", "key,start,", nil},
			{"b.parquet", "key,start,", []string{"--format", "csv"}},
		} {
			path := filepath.Join(dir, test.name)
			mustWeir(t, exitOK, "", append([]string{"export", path, "--server", server}, test.flags...)...)
			if got, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(got, []byte(test.begin)) {
				t.Errorf("%s begins with %.10q, want %q; %v", test.name, got, test.begin, err)
			}
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
