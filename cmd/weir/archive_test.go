package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"
	"github.com/weir-counter/weir/internal/archive"
	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// listed are the backups in a place.
func listed(t *testing.T, place string) []archive.Backup {
	t.Helper()
	var list struct{ Backups []archive.Backup }
	if err := json.Unmarshal([]byte(mustWeir(t, exitOK, "", "backup", "list", "--from", place, "--json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Backups
}

// awaitBackup waits for one that began after the call, and returns its name.
func awaitBackup(t *testing.T, place string) (name string) {
	t.Helper()
	known := map[string]bool{}
	for _, b := range listed(t, place) {
		known[b.Name] = true
	}
	began := ""
	transporttest.Eventually(t, "a new backup, and another one", func() bool {
		for _, b := range listed(t, place) {
			if name = b.Name; began == "" && !known[name] {
				began = name // it may have begun before the call
			}
		}
		return began != "" && name > began
	})
	return name
}

// A server backs itself up, encrypted, and is killed while it does. What is in the list can be restored.
func TestBackupTo(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, keys, place := filepath.Join(dir, "data"), filepath.Join(dir, "keys"), "file:"+filepath.Join(dir, "backups")
	if err := os.WriteFile(keys, []byte(identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out := mustWeir(t, exitFailure, "", "restore", "--from", place, "--data", data); !strings.Contains(out, "has no backup") {
		t.Error(out)
	}
	to := place + "?every=1s&keep=2&age=" + identity.Recipient().String()
	for i := range 3 {
		p := startProcess(t, data, "--backup-to", to)
		mustWeir(t, exitOK, "", "hit", "a", "5", "--durable", "--server", p.addr)
		awaitBackup(t, to)
		if _, err := p.end(t, syscall.SIGKILL); err == nil {
			t.Fatal("the process ended well in spite of SIGKILL")
		}
		list := listed(t, to)
		if n := len(list); n < 2 || n > 3 { // the third is new, and its turn to delete did not come
			t.Errorf("%d backups", n)
		}
		for _, b := range list {
			restored := filepath.Join(dir, "restored")
			mustWeir(t, exitOK, "", "restore", b.Name, "--from", to, "--identity", keys, "--data", restored)
			if err := os.RemoveAll(restored); err != nil {
				t.Fatal(err)
			}
		}
		restored := filepath.Join(dir, fmt.Sprint("restored", i))
		if out := mustWeir(t, exitFailure, "", "restore", "--from", to, "--data", restored); !strings.Contains(out, "--identity") {
			t.Error(out)
		}
		mustWeir(t, exitOK, "", "restore", "--from", to, "--identity", keys, "--data", restored)
		serveOnce(t, restored, func(server string) { wantCounted(t, server, "a", fmt.Sprint(5*(i+1))) })
	}
	for _, args := range [][]string{{"backup", "list"}, {"backup", "list", "--from", "ftp://x"}, {"restore"}, {"serve", "--ephemeral", "--backup-to", to}} {
		mustWeir(t, exitUsage, "", args...)
	}
}

// One node of a cluster makes backups, of the hits of all, and another one does when it is killed.
func TestBackupToOfCluster(t *testing.T) {
	t.Parallel()
	place := "file:" + t.TempDir()
	c := newProcesses(t, "--backup-to", place+"?every=1s&keep=3")
	c.start(0, 1, 2)
	for round := range 2 {
		up := []int{}
		for i := range c.nodes {
			if p := c.nodes[i].Load(); p != nil {
				up = append(up, i)
				mustWeir(t, exitOK, "", "hit", "a", "5", "--durable", "--server", p.addr)
			}
		}
		name := awaitBackup(t, place)
		restored := filepath.Join(t.TempDir(), "data")
		mustWeir(t, exitOK, "", "restore", name, "--from", place, "--data", restored)
		serveOnce(t, restored, func(server string) { wantCounted(t, server, "a", []string{"15", "25"}[round]) })
		makers := []int{}
		for _, i := range up {
			if _, text := c.nodes[i].Load().get(t, "/metrics"); strings.Contains(text, "\nweir_backup_age_seconds ") {
				makers = append(makers, i)
			}
		}
		if len(makers) != 1 {
			t.Fatalf("nodes %v make backups", makers)
		}
		if round == 0 {
			c.kill(makers[0])
		}
	}
}

// Without a name, the newest backup is restored only where it can't be another server's.
func TestRestoreOfSharedPlace(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	for _, name := range []string{"weir-20260501T120000Z-0123456789abcdef.backup", "weir-20260501T130000Z-fedcba9876543210.backup"} {
		if err := os.WriteFile(filepath.Join(place, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	if out := mustWeir(t, exitFailure, "", "restore", "--from", "file:"+place, "--data", data); !strings.Contains(out, "several servers") || !strings.Contains(out, "130000Z") {
		t.Error(out)
	}
}
