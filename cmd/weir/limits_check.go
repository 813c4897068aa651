package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/policy"
)

func newLimitsCheck(w *world) *cobra.Command {
	var r remote // for print alone
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Read a policy file and say all that is wrong with it",
		Long: `Read a policy file, and list its policies in order of application, or say all that
is wrong with it: one line for each fault, FILE:LINE: FIELD: what is wrong.

Exit codes: 0 the file is good, 1 it is wrong or can't be read, 2 the command line
is wrong.`,
		Example: "  weir limits check policies.yaml",
		Args:    args("FILE"),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(given) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: work(w, func(_ *cobra.Command, args []string, _ sources) error {
			set, err := policy.Load(args[0])
			var faults policy.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			if r.json {
				if err := r.print(w.stdout, newChecked(args[0], set, faults), nil); err != nil {
					return err
				}
			} else if len(faults) == 0 {
				return r.print(w.stdout, nil, func(t *table) { printPolicies(t, set) })
			}
			if len(faults) == 0 {
				return nil
			}
			if !r.json {
				for _, f := range faults {
					fmt.Fprintln(w.stderr, f)
				}
			}
			return fmt.Errorf("%s is wrong: see the lines above, or --help for an example", args[0])
		}),
	}
	cmd.Flags().BoolVar(&r.json, "json", false, "print JSON")
	return cmd
}

func printPolicies(t *table, set *policy.Set) {
	policies := set.Policies()
	t.row("NAME", "KEYS", "LIMIT", "MODE", "")
	for _, p := range policies {
		note := ""
		if n := len(p.Overrides); n > 0 {
			note = fmt.Sprintf("%d overridden ", n)
		}
		if p.Last {
			note += "last"
		}
		t.row(p.Name, keysText(p.Keys, p.By), limitText(p.Limit.N, p.Limit.Per, p.Limit.Burst, p.Limit.Algorithm.String()), p.Mode.String(), note)
	}
	t.row("the file is good")
}

// checked is what was found in a policy file, in JSON.
type checked struct {
	File     string          `json:"file"`
	Good     bool            `json:"good"`
	Policies []checkedPolicy `json:"policies"`
	Faults   []checkedFault  `json:"faults"`
}

type checkedPolicy struct {
	Name      string  `json:"name"`
	Keys      string  `json:"keys"`
	By        string  `json:"by,omitempty"`
	Limit     uint64  `json:"limit"`
	PerS      float64 `json:"per_s"`
	Burst     uint64  `json:"burst"`
	Algorithm string  `json:"algorithm"`
	Mode      string  `json:"mode"`
	Order     int     `json:"order"`
	Last      bool    `json:"last"`
	Overrides int     `json:"overrides"`
	Line      int     `json:"line"`
}

type checkedFault struct {
	Line    int    `json:"line"` // 0: the file as a whole
	Field   string `json:"field"`
	Message string `json:"message"`
}

func newChecked(file string, set *policy.Set, faults policy.Faults) checked {
	c := checked{File: file, Good: len(faults) == 0, Policies: []checkedPolicy{}, Faults: []checkedFault{}}
	for _, f := range faults {
		c.Faults = append(c.Faults, checkedFault{f.Line, f.Field, f.Message})
	}
	if set == nil {
		return c
	}
	for _, p := range set.Policies() {
		c.Policies = append(c.Policies, checkedPolicy{
			Name: p.Name, Keys: p.Keys, By: p.By, Limit: p.Limit.N, PerS: p.Limit.Per.Seconds(), Burst: p.Limit.Burst,
			Algorithm: p.Limit.Algorithm.String(), Mode: p.Mode.String(), Order: p.Order, Last: p.Last, Overrides: len(p.Overrides), Line: p.Line,
		})
	}
	return c
}
