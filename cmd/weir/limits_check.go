package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
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
	return &cobra.Command{
		Use:     "check FILE|- [KEY...]",
		Short:   "Check a policy file and list all its errors",
		Long:    checkHelp,
		Example: "  weir limits check policies.yaml\n  weir limits check policies.yaml login:bob:10.0.0.1",
		RunE: cli.Work(w, func(_ *cobra.Command, args []string, _ cli.Sources) error {
			file, keys := args[0], args[1:]
			set, err := loadPolicies(w, file)
			if faults, ok := errors.AsType[policy.Faults](err); ok {
				fmt.Fprintln(w.Stderr, cli.LinesText(faults.Error()))
				return fmt.Errorf("%s is invalid: see the lines above, or --help for an example", file)
			} else if err != nil {
				return err
			}
			for _, f := range set.Warnings(file) {
				fmt.Fprintf(w.Stderr, "warning: %s\n", cli.LinesText(f.String()))
			}
			t := cli.NewTable(w.Stdout)
			if len(keys) > 0 {
				printMatches(t, set, keys)
			} else {
				printPolicies(t, set)
			}
			return t.Flush()
		}),
	}
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
		atOnce, _ := set.AtOnce(key, "") // it fails for an invalid key, which no policy matches either
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
