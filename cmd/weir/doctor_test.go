package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-counter/weir/internal/testsupport"
)

// diagnosis is what weir doctor says, by check. It may fail for a busy disk, so the exit code is only what it follows from.
func diagnosis(t *testing.T, args ...string) map[string]finding {
	t.Helper()
	code, stdout, stderr := weirOf(t, nil, "", append([]string{"doctor", "--json"}, args...)...)
	var says struct{ Findings []finding }
	if err := json.Unmarshal([]byte(stdout), &says); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	by, fails := map[string]finding{}, false
	for _, f := range says.Findings {
		by[f.Check] = f
		fails = fails || f.State == "fail"
	}
	if (code == exitFailure) != fails || code != exitOK && code != exitFailure {
		t.Errorf("exit %d of %+v", code, says.Findings)
	}
	return by
}

func TestDoctorOfServers(t *testing.T) {
	t.Parallel()
	with, without := startServer(t, "--backup-to", "file:"+t.TempDir()), startServer(t, "--ephemeral")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	none := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	says := diagnosis(t, "--server", with+","+without+","+none)
	for check, want := range map[string]string{
		with + " answers": "ok", with + " cluster": "ok", with + " audit": "ok", with + " backup": "ok", with + " open files": "ok",
		without + " answers": "ok", without + " backup": "warn", without + " audit": "", none + " answers": "fail", none + " cluster": "",
	} {
		if got := says[check]; got.State != want || want == "warn" && !strings.Contains(got.Says, "--backup-to") {
			t.Errorf("%s: %+v, want %q", check, got, want)
		}
	}
}

func TestDoctorOfMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := testsupport.NewAuthority(t).Issue("server", nil)
	other, _ := testsupport.NewAuthority(t).Issue("server", nil)
	for settings, want := range map[string]map[string]string{
		"data: " + dir:                             {"settings": "ok", "disk": "", "certificate": "", "peers": ""},
		"data: " + filepath.Join(dir, "none"):      {"settings": "ok", "disk": "warn"},
		"data: " + dir + "\nflush-every: 1h":       {"settings": "fail"},
		"tls-cert: " + cert + "\ntls-key: " + key:  {"settings": "ok", "certificate": "warn"}, // it is good for an hour
		"tls-cert: " + other + "\ntls-key: " + key: {"certificate": "fail"},
		"data: " + dir + "\nmax-disk: 1000TiB":     {"disk space": "fail"},
		"policy: policies.yaml":                    {"policies": "ok", "tokens": ""},
		"policy: doctor.go":                        {"policies": "fail"},
		"tokens: policies.yaml":                    {"tokens": "fail"},
	} {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		says := diagnosis(t, "--config", file)
		for check, state := range want {
			if says[check].State != state {
				t.Errorf("%s: %s: %+v, want %q", settings, check, says[check], state)
			}
		}
	}
	mustWeir(t, exitUsage, "", "doctor", "there")
	if out := mustWeir(t, exitOK, "", "doctor", "--help"); strings.Contains(out, "--statsd") || !strings.Contains(out, "--config") {
		t.Error(out)
	}
}

// Values at a bound are beyond it.
func TestGrades(t *testing.T) {
	d := doctor{}
	for value, want := range map[float64]string{0: "ok", 0.9: "ok", 1: "warn", 1.9: "warn", 2: "fail", 99: "fail"} {
		d.add("x", value, 1, 2, "do", "says %d", 1)
		if got := d.findings[len(d.findings)-1]; got.State != want || strings.Contains(got.Says, "do") != (want != "ok") {
			t.Errorf("%v: %+v", value, got)
		}
	}
}
