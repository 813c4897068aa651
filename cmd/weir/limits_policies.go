package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
	"github.com/weir-counter/weir/internal/server/envoy"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

func newPolicies(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "List, put, get and delete policies of the API",
		Long: `List the policies of the API. 'weir limits' also lists the policies of the file. Policies
of the API are stored with the hits, in a cluster on all nodes.

'weir serve --policies-api' decides which of two policies with the same name applies. With
a tokens file, changes need role admin.`,
		Example: "  weir policies put login login.yaml\n  weir policies get login",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.PoliciesAnswer, error) {
			return c.Policies(ctx)
		}, printKept),
	}
	r.Define(cmd)
	cmd.AddCommand(newPutPolicy(w), newGetPolicy(w), newDeletePolicy(w))
	return cmd
}

func printKept(t *cli.Table, answer api.PoliciesAnswer) {
	if len(answer.Policies) == 0 {
		t.Row("the API has no policies; 'weir limits' lists those of the file")
		return
	}
	t.Row("NAME", "VERSION", "BY", "AT", "IN USE")
	for _, p := range answer.Policies {
		used := "yes"
		if !p.InUse {
			used = "NO: " + p.Why
		}
		t.Row(p.Name, fmt.Sprint(p.Version), p.By, cli.TimeText(p.At), used)
	}
}

func newPutPolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	var want client.PolicyVersion
	cmd := &cobra.Command{
		Use:   "put NAME FILE",
		Short: "Create or replace a policy",
		Long: `Create or replace the policy NAME with FILE, or - for standard input. FILE has the fields
of one policy, in YAML or JSON, like an entry of a policy file:

  keys: "login:{user}:*"
  by: "login:{user}"
  limit: 5
  per: 1m

With --version or --new, nothing is replaced that somebody else has changed meanwhile.`,
		Example: "  weir policies put login login.yaml\n  weir policies put login login.yaml --version 7",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (answer api.PutAnswer, err error) {
			if want.New && want.Is != 0 {
				return answer, cli.Usage(errors.New("--new and --version: choose one"))
			}
			text, err := readPolicy(w, args[1])
			if err != nil {
				return answer, err
			}
			return c.PutPolicy(ctx, args[0], string(text), want)
		}, func(t *cli.Table, answer api.PutAnswer) {
			t.Row(fmt.Sprintf("%s has version %d", answer.Name, answer.Version))
			if !answer.InUse {
				t.Row("NOT IN USE: " + answer.Why)
			}
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().Uint64Var(&want.Is, "version", 0, "replace only this version")
	cmd.Flags().BoolVar(&want.New, "new", false, "only create: fail if the policy exists")
	return cmd
}

func readPolicy(w *cli.World, file string) ([]byte, error) {
	from, err := openFile(w, file)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	return io.ReadAll(io.LimitReader(from, policy.MaxFileBytes+1))
}

func newGetPolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	return r.Define(&cobra.Command{
		Use:     "get NAME",
		Short:   "Print a policy of the API",
		Example: "  weir policies get login > login.yaml",
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			answer, err := c.Policy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r.JSON {
				return r.Print(w.Stdout, answer, nil)
			}
			_, err = fmt.Fprintf(w.Stdout, "# version %d, put by %s at %s\n%s\n", answer.Version, cli.KeyText(answer.By), cli.TimeText(answer.At), cli.LinesText(string(answer.Policy)))
			return err
		}),
	})
}

func newDeletePolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	var want client.PolicyVersion
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a policy of the API",
		Long: `Delete a policy of the API. It then limits no key, unless the policy file has a policy of
that name. Its usage is kept for a while, in case it is put again.`,
		Example: "  weir policies delete login",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (api.DeletedPolicy, error) {
			return c.DeletePolicy(ctx, args[0], want)
		}, func(t *cli.Table, answer api.DeletedPolicy) {
			t.Row(fmt.Sprintf("%s is deleted; it had version %d", answer.Name, answer.Version))
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().Uint64Var(&want.Is, "version", 0, "delete only this version")
	return cmd
}

// listRLS prints the limits of envoyproxy/ratelimit in a file or folder, or all that is wrong with them.
func listRLS(w *cli.World, r *cli.Remote, path string) error {
	c, err := envoy.LoadConfig(path)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		fmt.Fprintln(w.Stderr, cli.LinesText(faults.Error()))
		return fmt.Errorf("%s is invalid: see the lines above", path)
	} else if err != nil {
		return err
	}
	answer := api.LimitsAnswer{Limits: []api.LimitPolicy{}}
	for _, p := range envoy.Policies(c, limit.Window) {
		answer.Limits = append(answer.Limits, p.Row())
	}
	return r.Print(w.Stdout, answer, func(t *cli.Table) {
		t.Row("NAME", "KEYS", "LIMIT", "MODE")
		for _, p := range answer.Limits {
			t.Row(policyCells(p)...)
		}
		t.Row("the limits are valid")
	})
}

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
