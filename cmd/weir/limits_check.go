package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/policy"
)

const checkHelp = `Read a policy file, or - for standard input, and list its policies in order of
application, or all its errors, one per line: FILE:LINE: FIELD: error. Suspicious
policies get a warning.

With KEYs, show which policies match each key, and which key is counted.

  limits:
    - name: login               # 5 in any minute per user, from any address
      keys: "login:{user}:*"    # * any text, {user} without : and /, {user*} any text
      by: "login:{user}"        # the counted key (default: the request's key)
      limit: 5
      per: 1m
      overrides:
        - {key: "login:admin", limit: 100}

The fields are name, keys, by, limit, per, burst, algorithm (window, fixed, gcra), mode
(enforce, shadow), where (leased, node, strict), away (closed, open), order, last,
except and overrides; docs/policies.md has all of them.

Exit codes: 0 valid, 1 invalid or unreadable, 2 invalid command line.`

func newCheck(w *cli.World) *cobra.Command {
	var r cli.Remote // for print alone
	cmd := &cobra.Command{
		Use:     "check FILE|- [KEY...]",
		Short:   "Check a policy file and list all its errors",
		Long:    checkHelp,
		Example: "  weir limits check policies.yaml\n  weir limits check policies.yaml login:bob:10.0.0.1",
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(given) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: cli.Work(w, func(_ *cobra.Command, args []string, _ cli.Sources) error {
			file, keys := args[0], args[1:]
			set, err := loadPolicies(w, file)
			var faults policy.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			var warnings []policy.Fault
			if set != nil {
				warnings = set.Warnings(file)
			}
			if r.JSON {
				err = r.Print(w.Stdout, newChecked(file, set, faults, warnings, keys), nil)
			} else {
				err = printChecked(&r, w, set, faults, warnings, keys)
			}
			if err != nil || len(faults) == 0 {
				return err
			}
			return fmt.Errorf("%s is invalid: see the lines above, or --help for an example", file)
		}),
	}
	cmd.Flags().BoolVar(&r.JSON, "json", false, "print JSON")
	return cmd
}

// loadPolicies reads a policy file, or the input.
func loadPolicies(w *cli.World, file string) (*policy.Set, error) {
	if file != "-" {
		return policy.Load(file)
	}
	data, err := readPolicy(w, file)
	if err != nil {
		return nil, err
	}
	return policy.Parse(file, data)
}

func printChecked(r *cli.Remote, w *cli.World, set *policy.Set, faults policy.Faults, warnings []policy.Fault, keys []string) error {
	for _, f := range faults {
		fmt.Fprintln(w.Stderr, cli.LinesText(f.String()))
	}
	for _, f := range warnings {
		fmt.Fprintf(w.Stderr, "warning: %s\n", cli.LinesText(f.String()))
	}
	switch {
	case set == nil:
		return nil
	case len(keys) > 0:
		return r.Print(w.Stdout, nil, func(t *cli.Table) { printMatches(t, set, keys) })
	}
	return r.Print(w.Stdout, nil, func(t *cli.Table) { printPolicies(t, set) })
}

func printPolicies(t *cli.Table, set *policy.Set) {
	t.Row("NAME", "KEYS", "LIMIT", "MODE", "NOTES")
	for _, p := range set.Policies() {
		note := ""
		if n := len(p.Overrides); n > 0 {
			note = fmt.Sprintf("overrides: %d ", n)
		}
		if n := len(p.Except); n > 0 {
			note += fmt.Sprintf("except: %d ", n)
		}
		if p.CountIf != nil {
			note += fmt.Sprintf("counts if %s ", p.CountIf)
		}
		if p.Last {
			note += "last"
		}
		t.Row(append(policyCells(p.Row()), note)...)
	}
	for _, l := range set.Concurrencies() {
		t.Row(l.Name, keysText(l.Keys, l.By), atOnceText(l.Max, l.TTL), "permits")
	}
	t.Row("the file is valid")
}

// printMatches has a row for each policy of each key.
func printMatches(t *cli.Table, set *policy.Set, keys []string) {
	t.Row("KEY", "POLICY", "COUNTS", "LIMIT", "MODE")
	for _, key := range keys {
		matches := set.Match(key)
		atOnce, _ := set.AtOnce(key, "") // none for a key that is none, which Match has none for either
		for _, l := range atOnce {
			t.Row(key, l.Name, l.Key, atOnceText(l.Most, l.TTL), "permits")
		}
		for _, m := range matches {
			if m.Except.IsValid() {
				t.Row(key, m.Policy.Name, "-", "-", "no limit: except "+m.Except.String())
				continue
			}
			override := ""
			if m.Range.IsValid() {
				override = " override of " + m.Range.String()
			}
			t.Row(key, m.Policy.Name, m.Key, cli.LimitText(m.Limit.N, m.Limit.Per, m.Limit.Burst, m.Limit.Algorithm.String(), m.Limit.Calendar.String()), modeText(m.Policy.Mode.String(), m.Policy.Where.String(), m.Policy.Away.String())+override)
		}
		if len(matches)+len(atOnce) > 0 {
			continue
		}
		why := "no policy matches: no limit"
		if near, ok := set.Near(key); ok {
			why += fmt.Sprintf("; it looks like %s of %s, but {name} holds no : and /, write {name*}", near.Keys, near.Name)
		}
		t.Row(key, "-", "-", "-", why)
	}
}

// checked is what was found in a policy file, in JSON.
type checked struct {
	File     string          `json:"file"`
	Good     bool            `json:"good"`
	Policies []checkedPolicy `json:"policies"`
	Faults   []policy.Fault  `json:"faults"`
	Warnings []policy.Fault  `json:"warnings"`
	Keys     []checkedKey    `json:"keys,omitempty"`
}

// checkedPolicy is a policy without decisions.
type checkedPolicy struct {
	api.LimitPolicy
	Order int `json:"order"`
	Line  int `json:"line"`

	Allowed      *api.Bounds `json:"allowed,omitempty"`
	Denied       *api.Bounds `json:"denied,omitempty"`
	ShadowDenied *api.Bounds `json:"shadow_denied,omitempty"`
}

type checkedKey struct {
	Key      string         `json:"key"`
	Policies []checkedMatch `json:"policies"`
}

type checkedMatch struct {
	Name   string  `json:"name"`
	Counts string  `json:"counts"` // the key that is counted
	Limit  uint64  `json:"limit"`  // of that key
	PerS   float64 `json:"per_s"`
	Burst  uint64  `json:"burst"`
	Range  string  `json:"range,omitempty"`  // of an override
	Except string  `json:"except,omitempty"` // the policy is not for the key, because of this range
}

func newChecked(file string, set *policy.Set, faults policy.Faults, warnings []policy.Fault, keys []string) checked {
	c := checked{File: file, Good: len(faults) == 0, Policies: []checkedPolicy{}, Faults: slices.Grow(faults, 1), Warnings: slices.Grow(warnings, 1)} // lists in JSON, also empty ones
	if set == nil {
		return c
	}
	for _, p := range set.Policies() {
		c.Policies = append(c.Policies, checkedPolicy{LimitPolicy: p.Row(), Order: p.Order, Line: p.Line})
	}
	for _, key := range keys {
		k := checkedKey{key, []checkedMatch{}}
		for _, m := range set.Match(key) {
			match := checkedMatch{Name: m.Policy.Name, Counts: m.Key, Limit: m.Limit.N, PerS: m.Limit.Per.Seconds(), Burst: m.Limit.Burst}
			if m.Range.IsValid() {
				match.Range = m.Range.String()
			}
			if m.Except.IsValid() {
				match.Except = m.Except.String()
			}
			k.Policies = append(k.Policies, match)
		}
		c.Keys = append(c.Keys, k)
	}
	return c
}
