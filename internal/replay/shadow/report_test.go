package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/weir-counter/weir/internal/replay"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const testPolicies = `limits:
  - name: address
    keys: "ip:*"
    limit: 12
    per: 1m
    overrides:
      - key: "ip:10.0.0.0"
        limit: 20
  - name: page
    keys: "url:/0*"
    limit: 8
    per: 30s
    burst: 4
    mode: shadow
  - name: login
    keys: "login:*"
    limit: 5
    per: 1h
`

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (rewrite it with -update):\n%s", path, got)
	}
}

func encode(t testing.TB, r *Report) string {
	t.Helper()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestGolden(t *testing.T) {
	text := append(clf(madeUp(7, 900, false)), "rubbish \x1b[31m\n"...)
	for _, asWritten := range []bool{false, true} {
		name := map[bool]string{false: "enforced", true: "as_written"}[asWritten]
		r, err := runOn(t, text, Options{Policies: policies(t, testPolicies), Top: 3, AsWritten: asWritten})
		if err != nil {
			t.Fatal(err)
		}
		r.MalformedLines[0].File = "access.log"
		var b strings.Builder
		if err := r.Print(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", b.String())
		golden(t, name+".json", encode(t, r))
	}
}

// The same requests in every format, plain and compressed, and with any number of workers,
// give the same report.
func TestFormatsAndWorkers(t *testing.T) {
	log := madeUp(3, 40_000, false) // some chunks
	o := Options{Policies: policies(t, policyText(testLimits["all or none"])), Top: 100}
	var want string
	for _, c := range []struct {
		name    string
		text    []byte
		keys    []string
		workers int
	}{
		{"clf", clf(log), nil, 1},
		{"clf, three workers", clf(log), nil, 3},
		{"clf, windows line ends", bytes.ReplaceAll(clf(log), []byte("\n"), []byte("\r\n")), nil, 2},
		{"json", jsonLines(log), []string{"ip:{ip}", "url:{path}"}, 2},
		{"gzip", gzipped(t, clf(log)), nil, 2},
		{"zstd", zstandard(t, clf(log)), nil, 2},
	} {
		o.Log.Keys, o.Log.Workers = c.keys, c.workers
		r, err := runOn(t, c.text, o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r.Format, r.Keys = "", nil
		if want == "" {
			want = encode(t, r)
		}
		if got := encode(t, r); got != want {
			t.Errorf("%s differs:\n%s\nwant\n%s", c.name, got, want)
		}
	}

	var first []ask // tsv has one key per line
	for _, a := range madeUp(4, 900, true) {
		a.keys = a.keys[:1]
		first = append(first, a)
	}
	checkTruth(t, testLimits["one"], first, tsv(first), nil)
}

func gzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, text []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(text, nil)
}

func TestEmptyLog(t *testing.T) {
	r, err := runOn(t, nil, Options{Policies: policies(t, testPolicies)})
	if err != nil || r.Requests != 0 || r.First != nil || len(r.Limits) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	var b strings.Builder
	if err := r.Print(&b); err != nil || !strings.Contains(b.String(), "address: no line has a key ip:*") || !strings.Contains(b.String(), "the log is empty") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNothingToDo(t *testing.T) {
	log := clf(madeUp(1, 5, false))
	for _, c := range []struct {
		name, policies string
		text           []byte
		keys           []string
		want           string
	}{
		{"no such keys", testPolicies, log, []string{"host:{host}"}, "the lines make keys like host:10.0.0."},
		{"no keys", testPolicies, jsonLines(madeUp(1, 5, false)), []string{"ip:{nobody}"}, "no line has such a field; the lines have {ip} {n} {path} {ts}"},
		{"rubbish", testPolicies, []byte("rubbish\n"), nil, "no line fits a format"},
		{"no policies", "limits: []\n", log, nil, "policies.yaml has no policies"},
		{"bad template", testPolicies, log, []string{"ip:{hots}"}, "has no field {hots}"},
	} {
		r, err := runOn(t, c.text, Options{Log: replay.Options{Keys: c.keys}, Policies: policies(t, c.policies)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if r != nil && strings.Contains(fmt.Sprint(r.Warnings), "the log is empty") {
			t.Errorf("%s: %v", c.name, r.Warnings)
		}
	}
}

// Requests of excepted addresses are let through, and are not ones that no policy is for.
func TestExceptedAddresses(t *testing.T) {
	set := policies(t, "limits: [{name: ip, keys: 'ip:{addr*}', limit: 1, per: 1h, except: [0.0.0.0/0, '::/0']}]")
	r, err := runOn(t, clf(madeUp(1, 3, false)), Options{Policies: set})
	if err != nil || r.Allowed != 3 || r.Unmatched != 0 || r.Denied != 0 {
		t.Errorf("%s %v", encode(t, r), err)
	}
}

// A policy with count_if counts by the status of a line, and still denies the others while it is full.
func TestCountIf(t *testing.T) {
	set := policies(t, "limits: [{name: ip, keys: 'ip:*', limit: 2, per: 1h, count_if: status >= 400}, {name: all, keys: 'ip:*', limit: 100, per: 1h}]")
	log := ""
	for _, status := range []string{"200", "200", "200", "404", "301", "500", "200", "404"} { // 4 answers before the second failure, then 2 denials
		log += `10.0.0.1 - - [31/Jan/2026:09:30:05 +0000] "GET / HTTP/1.1" ` + status + " 1\n"
	}
	r, err := runOn(t, []byte(log), Options{Policies: set})
	if err != nil || r.Allowed != 6 || r.Denied != 2 || r.Limits[0].Denied != 2 || len(r.Warnings) != 0 || len(r.Limits[0].Needs) != 0 || !strings.Contains(r.Limits[0].NeedsUnknown, "count_if") || len(r.Limits[1].Needs) == 0 {
		t.Errorf("%s %v", encode(t, r), err)
	}
	text := `{"ip":"a","ts":1769851805,"status":"200","n":5}
{"ip":"a","ts":1769851805,"n":1}
{"ip":"a","ts":1769851805,"status":503,"n":3}
{"ip":"a","ts":1769851806,"status":200,"n":2}
`
	r, err = runOn(t, []byte(text), Options{Log: replay.Options{Keys: []string{"ip:{ip}"}}, Policies: set})
	if err != nil || r.Allowed != 7 || r.Denied != 4 || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "ip: 1 request without a status") {
		t.Errorf("%s %v", encode(t, r), err)
	}
}

// Two keys of a line that one limit counts as one take two of it.
func TestOneLimitTwice(t *testing.T) {
	set := policies(t, "limits: [{name: all, keys: '*', by: all, limit: 5, per: 1m}]")
	r, err := runOn(t, clf(madeUp(1, 3, false)), Options{Log: replay.Options{Keys: []string{"ip:{host}", "url:{path}"}}, Policies: set})
	if err != nil || r.Allowed != 2 || r.Denied != 1 || r.Limits[0].Requests != 6 || r.Limits[0].Denied != 2 {
		t.Errorf("%s %v", encode(t, r), err)
	}
}

func TestDefaultKeys(t *testing.T) {
	for keys, want := range map[string]string{
		"ip:*": "[ip:{host}]", "url:/a*": "[url:{path}]", "user:*": "[ip:{host}]", "*": "[ip:{host}]", "address:{a*}": "[address:{host}]",
	} {
		got := fmt.Sprint(DefaultKeys(replay.CLF, policies(t, fmt.Sprintf("limits: [{name: a, keys: %q, limit: 1, per: 1s}]", keys))))
		if got != want {
			t.Errorf("keys %s: %s, want %s", keys, got, want)
		}
	}
}

// A log in the wrong order, and times coarser than a limit, are reported.
func TestWarnings(t *testing.T) {
	log := madeUp(1, 50, false)
	log[40].at = testStart - 3600
	r, err := runOn(t, clf(log), Options{Policies: policies(t, "limits: [{name: fast, keys: 'ip:*', limit: 5, per: 100ms}]")})
	if err != nil || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "sort the log by time") || !strings.Contains(r.Warnings[1], "fast: its interval of 100ms") {
		t.Errorf("%q %v", r.Warnings, err)
	}
	if !r.First.Equal(time.Unix(testStart-3600, 0)) {
		t.Errorf("first %v", r.First)
	}
}

func TestStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, clf(madeUp(1, 10, false)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(ctx, Options{Log: replay.Options{Files: []string{name}}, Policies: policies(t, testPolicies)})
	if !errors.Is(err, context.Canceled) || r == nil || r.StoppedEarly == "" {
		t.Errorf("%v %v", r, err)
	}
}

// Keys that a policy misses by a : are reported: they have no limit, and nobody would see it.
func TestMissedKeysAreTold(t *testing.T) {
	log := "2001:db8::1 - - [01/Dec/2025:09:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n10.0.0.1 - - [01/Dec/2025:09:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"
	for keys, want := range map[string]string{"ip:{addr}": "1 key like ip:2001:db8::1 no policy is for, though they look like ip:{addr}", "ip:{addr*}": ""} {
		r, err := runOn(t, []byte(log), Options{Policies: policies(t, "limits: [{name: a, keys: '"+keys+"', limit: 5, per: 1m}]")})
		if got := strings.Join(r.Warnings, "; "); err != nil || (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q %v", keys, got, err)
		}
	}
}
