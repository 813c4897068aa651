package limits

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/internal/rlsconfig"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// rlsFiles are limits as envoyproxy/ratelimit has them.
type rlsFiles struct {
	path    string
	options rlsconfig.Options
}

func (f *rlsFiles) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "rls-config", "", "list the limits of this file or folder, as envoyproxy/ratelimit has them, in place of a server's")
	f.defineOptions(cmd)
}

func (f *rlsFiles) defineOptions(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.options.MergeDomains, "rls-merge-domains", false, "let several files have one domain")
}

// load reads the limits, and prints all that is wrong with them.
func (f *rlsFiles) load(w *cli.World) (*rlsconfig.Config, error) {
	c, err := rlsconfig.Load(f.path, f.options)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		for _, one := range faults {
			fmt.Fprintln(w.Stderr, one)
		}
		return nil, fmt.Errorf("%s is wrong: see the lines above", f.path)
	}
	return c, err
}

// listedLimit is a limit in JSON.
type listedLimit struct {
	Name         string   `json:"name"`
	Keys         string   `json:"keys"`
	By           string   `json:"by,omitempty"`
	Limit        uint32   `json:"limit"`
	PerS         float64  `json:"per_s"`
	Unlimited    bool     `json:"unlimited,omitempty"`
	Mode         string   `json:"mode"`
	Quota        bool     `json:"quota,omitempty"`
	CountsValues bool     `json:"counts_values,omitempty"`
	Label        string   `json:"label,omitempty"` // its name field
	Replaces     []string `json:"replaces,omitempty"`
	File         string   `json:"file"`
	Line         int      `json:"line"`
	HasMetadata  bool     `json:"has_metadata,omitempty"`
}

// list prints the limits.
func (f *rlsFiles) list(w *cli.World, r *cli.Remote) error {
	c, err := f.load(w)
	if err != nil {
		return err
	}
	list := make([]listedLimit, 0, len(c.Limits()))
	for _, l := range c.Limits() {
		keys, by := l.Pattern()
		mode := policy.Enforce
		if l.Shadow {
			mode = policy.Shadow
		}
		list = append(list, listedLimit{
			Name: l.Name, Keys: keys, By: by, Limit: l.Requests, PerS: l.Period().Seconds(), Unlimited: l.Unlimited, Mode: mode.String(), Quota: l.Quota,
			CountsValues: l.CountsValues(), Label: l.Label, Replaces: l.Replaces, File: l.File, Line: l.Line, HasMetadata: l.Metadata != nil,
		})
	}
	answer := struct {
		Limits []listedLimit `json:"limits"`
	}{list}
	return r.Print(w.Stdout, answer, func(t *cli.Table) {
		t.Row("NAME", "KEYS", "LIMIT", "MODE", "NOTES")
		for i, l := range c.Limits() {
			rate := "unlimited"
			if !l.Unlimited {
				rate = limitText(uint64(l.Requests), l.Period(), uint64(l.Requests), limit.Window.String(), "")
			}
			t.Row(l.Name, keysText(list[i].Keys, list[i].By), rate, list[i].Mode, notes(l))
		}
		t.Row("the limits are good")
	})
}

// notes says what else is to know of a limit.
func notes(l *rlsconfig.Limit) (text string) {
	add := func(is bool, note string) {
		switch {
		case !is:
		case text == "":
			text = note
		default:
			text += ", " + note
		}
	}
	add(l.Quota, "quota")
	add(l.CountsValues(), "counted by values")
	add(l.Metadata != nil, "metadata")
	add(l.Label != "", "name "+l.Label)
	for _, label := range l.Replaces {
		add(true, "replaces "+label)
	}
	return text
}
