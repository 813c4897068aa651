package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/policy"
)

// NewPolicies is the command weir policies.
func NewPolicies(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "Policies that were put by API: list, put, get, delete",
		Long: `List the policies that were put by API, beside those of the server's policy file: weir limits
lists both. They are kept with the hits: in the data directory, in a cluster on all nodes.

Which goes first where both have one of a name, 'weir serve --policies-api' says. To change
them a server with a tokens file wants role admin.`,
		Example:           "  weir policies put login login.yaml\n  weir policies get login",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.RunE = cli.Ask(w, &r, askKept, printKept)
	r.Define(cmd)
	cmd.AddCommand(newListPolicies(w), newPutPolicy(w), newGetPolicy(w), newDeletePolicy(w))
	return cmd
}

func askKept(ctx context.Context, c *client.Client, _ []string) (client.Policies, error) {
	return c.Policies(ctx)
}

func printKept(t *cli.Table, answer client.Policies) {
	if len(answer.Policies) == 0 {
		t.Row("no policies were put by API; weir limits lists those of the file")
		return
	}
	t.Row("NAME", "VERSION", "BY", "AT", "IN USE")
	for _, p := range answer.Policies {
		used := "yes"
		if !p.InUse {
			used = "NO: " + p.Why
		}
		t.Row(p.Name, fmt.Sprint(p.Version), cli.KeyText(p.By), cli.TimeText(p.At), used)
	}
}

func newListPolicies(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List the policies that were put by API",
		Example:           "  weir policies list",
		Args:              cli.Args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Ask(w, &r, askKept, printKept),
	}
	r.Define(cmd)
	return cmd
}

func newPutPolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	var want client.PolicyVersion
	cmd := &cobra.Command{
		Use:   "put NAME FILE",
		Short: "Put a policy in place of the one of its name",
		Long: `Put the policy of FILE, or - for the input, in place of the one of its name that was put
before. FILE has the fields of one policy, in YAML or JSON, as an entry of a policy file:

  keys: "login:{user}:*"
  by: "login:{user}"
  limit: 5
  per: 1m

With --version or --new it is put only if nobody has changed it meanwhile.`,
		Example:           "  weir policies put login login.yaml\n  weir policies put login login.yaml --version 7",
		Args:              cli.Args("NAME", "FILE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			if want.New && want.Is != 0 {
				return cli.Usage(errors.New("--new and --version: choose one"))
			}
			text, err := readPolicy(w, args[1])
			if err != nil {
				return err
			}
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			answer, err := c.PutPolicy(cmd.Context(), args[0], string(text), want)
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, answer, func(t *cli.Table) {
				t.Row(fmt.Sprintf("%s has version %d", answer.Name, answer.Version))
				if !answer.InUse {
					t.Row("NOT IN USE: " + answer.Why)
				}
			})
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().Uint64Var(&want.Is, "version", 0, "put it only if the policy has this version")
	cmd.Flags().BoolVar(&want.New, "new", false, "put it only if there is none of its name")
	return cmd
}

// readPolicy reads the text of a policy.
func readPolicy(w *cli.World, file string) ([]byte, error) {
	from := w.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, policy.MaxFileBytes))
}

func newGetPolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "Print a policy that was put by API, as it was put",
		Example:           "  weir policies get login > login.yaml",
		Args:              cli.Args("NAME"),
		ValidArgsFunction: cli.CompletePolicies(w, &r, 1),
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
			_, err = fmt.Fprintf(w.Stdout, "# version %d, put by %s at %s\n%s\n", answer.Version, cli.KeyText(answer.By), cli.TimeText(answer.At), answer.Policy)
			return err
		}),
	}
	r.Define(cmd)
	return cmd
}

func newDeletePolicy(w *cli.World) *cobra.Command {
	var r cli.Remote
	var want client.PolicyVersion
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a policy that was put by API",
		Long: `Delete a policy that was put by API: nothing limits its keys by it any more, unless the
policy file has one of its name. What keys have used of it stays for a while, for one that
is put again.`,
		Example:           "  weir policies delete login",
		Args:              cli.Args("NAME"),
		ValidArgsFunction: cli.CompletePolicies(w, &r, 1),
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, args []string) (client.DeletedPolicy, error) {
			return c.DeletePolicy(ctx, args[0], want)
		}, func(t *cli.Table, answer client.DeletedPolicy) {
			t.Row(fmt.Sprintf("%s is deleted; it had version %d", answer.Name, answer.Version))
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().Uint64Var(&want.Is, "version", 0, "delete it only if the policy has this version")
	return cmd
}
