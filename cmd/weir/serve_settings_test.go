package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/cli"
)

var updateSettings = flag.Bool("settings.update", false, "write docs/settings.md")

// docs/settings.md has all settings as they are declared.
func TestSettingsPage(t *testing.T) {
	const file = "../../docs/settings.md"
	want := settingsPage()
	if *updateSettings {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the settings say (%v): make settings writes it", file, err)
	}
}

// The help has each common setting once, below its heading; --help-all has every setting.
func TestServeHelp(t *testing.T) {
	t.Parallel()
	common := 0
	for _, all := range []bool{false, true} {
		args := []string{"serve", "--help"}
		if all {
			args = []string{"serve", "--help-all"}
		}
		help := mustWeir(t, exitOK, "", args...)
		for _, g := range newServeFlags().groups() {
			_, below, _ := strings.Cut(help, "\n"+g.title+":\n")
			below, _, _ = strings.Cut(below, "\n\n")
			for _, s := range g.settings {
				want := 0
				if all || s.common {
					want = 1
				}
				if s.common && !all {
					common++
				}
				if n := len(regexp.MustCompile("(?m)^ +--"+s.name+" ").FindAllString(below, -1)); n != want {
					t.Errorf("help-all %v: --%s stands below %s %d times, not %d", all, s.name, g.title, n, want)
				}
			}
		}
	}
	if common > 26 {
		t.Errorf("%d settings are common: people read about 25", common)
	}
	newServe(&cli.World{}).Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Usage) > 160 {
			t.Errorf("--%s: the help has %d characters: docs/ has space for more", f.Name, len(f.Usage))
		}
	})
}

// An error of a field names the setting that sets it, wherever its value came from.
func TestFieldsOfSettings(t *testing.T) {
	cmd := newServe(&cli.World{})
	for name, want := range map[string]string{
		"data": "Journal.Dir", "max-disk": "Journal.MaxBytes", "resp": "RESP.Addr", "rls-xds": "RLS.XDS.Addr", "link": "Regions.Links",
		"history-every": "History.Every", "drain-delay": "HTTP.DrainDelay", "alerts": "Alerts.File", "log-level": "",
	} {
		if got := strings.Join(cmd.Flags().Lookup(name).Annotations[cli.FieldOf], " "); got != want {
			t.Errorf("--%s sets %q, not %q", name, got, want)
		}
	}
}

// The address of a management server may have the name of the node that asks.
func TestNodeOfManagementServer(t *testing.T) {
	for given, want := range map[string][2]string{"gateway:18001": {"", "gateway:18001"}, "quota@gateway:18001": {"quota", "gateway:18001"}} {
		f := newServeFlags()
		f.node.RLS.XDS.Addr = given
		f.combine(cli.Sources{})
		if got := f.node.RLS.XDS; got.Node != want[0] || got.Addr != want[1] {
			t.Errorf("%s: node %q at %q", given, got.Node, got.Addr)
		}
	}
}

// A directory of TLS files has the names that Kubernetes gives them.
func TestTLSDirectory(t *testing.T) {
	dir := t.TempDir()
	var ca, cert, key string
	files := tlsFiles{&ca, &cert, &key}
	if err := files.Set(dir); err == nil || !strings.Contains(err.Error(), "none of the files ca.crt, tls.crt and tls.key") {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Set(dir); err != nil || ca != filepath.Join(dir, "ca.crt") || cert+key != "" || files.String() != dir {
		t.Errorf("with ca.crt: %v, %q %q %q", err, ca, cert, key)
	}
}

// settingsPage is docs/settings.md.
func settingsPage() string {
	f := newServeFlags()
	cmd := &cobra.Command{Use: "serve"}
	f.define(cmd)
	var b strings.Builder
	b.WriteString(settingsIntro)
	for _, g := range f.groups() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		for _, s := range g.settings {
			flag := cmd.Flags().Lookup(s.name)
			kind, help := pflag.UnquoteUsage(flag)
			if strings.Contains(kind, "|") {
				kind = " " + kind
			} else {
				kind = "" // the help or the default shows it
			}
			help, _, _ = strings.Cut(help, " (default: ")
			standard := s.unset
			if standard == "" && flag.DefValue != "" && flag.DefValue != "false" && flag.DefValue != "[]" {
				standard = "`" + strings.Trim(flag.DefValue, "[]") + "`"
			}
			if standard != "" {
				standard = " (" + standard + ")"
			}
			fmt.Fprintf(&b, "- `--%s%s`%s: %s\n", s.name, kind, standard, help)
		}
	}
	return b.String()
}

const settingsIntro = `# Settings

<!-- Written by ` + "`make settings`" + ` from cmd/weir/serve_settings.go. -->

Each setting of ` + "`weir serve`" + ` is a flag (` + "`--max-ahead 10s`" + `), an environment variable (` + "`WEIR_MAX_AHEAD=10s`" + `) and a line of the
YAML file that ` + "`--config`" + ` names (` + "`max-ahead: 10s`" + `). The command line overrides the environment, which overrides the file.

Defaults are in parentheses. Durations are written ` + "`90s`, `5m`, `24h`, `7d`" + ` or in seconds, sizes ` + "`512MiB`" + `. A setting of a listener
needs the listener. Weir reads changed files of policies, tokens, certificates and ` + "`--rls-config`" + ` again within a second, and on SIGHUP.
`
