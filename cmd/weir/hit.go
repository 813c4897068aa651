package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/cli"
)

func newHit(w *cli.World) *cobra.Command {
	var r cli.Remote
	var at time.Time
	var durable bool
	var id string
	cmd := &cobra.Command{
		Use:   "hit KEY [N]",
		Short: "Count a hit of a key, or N of them",
		Long: `Count a hit of a key, or N of them, on a server.

A hit without an answer is sent again and counts once. With --durable the command
succeeds when the hit is on the server's disk; without it, a crash of the server
can lose at most one flush interval.`,
		Example: "  weir hit url:/home\n  weir hit jobs:done 25 --at 2026-01-31T12:00:00Z",
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			if id == "" && cmd.Flags().Changed("distinct") {
				return cli.Usage(errors.New("--distinct is empty (an unset shell variable?): name an id, or leave it out"))
			}
			hit := client.Hit{Key: args[0], N: 1, At: at, Distinct: id}
			if len(args) == 2 {
				n, err := strconv.ParseUint(args[1], 10, 64)
				if err != nil || n == 0 {
					return cli.Usage(fmt.Errorf("wrong N %q: %s", args[1], cli.WholeNumber))
				}
				hit.N = n
			}
			c, err := r.Sender(from, durable)
			if err != nil {
				return err
			}
			receipt, err := c.Send(cmd.Context(), []client.Hit{hit})
			if err != nil {
				return err
			}
			return r.Print(w.Stdout, receipt, func(t *cli.Table) {
				text := fmt.Sprintf("%d counted", receipt.Counted)
				if receipt.Durable {
					text += ", on disk"
				}
				if receipt.Late > 0 {
					text += ", late: the key has a newer hit"
				}
				t.Row(text)
			})
		}),
	}
	r.DefineWithin(cmd, cli.DurableTimeout)
	cmd.Flags().BoolVar(&durable, "durable", false, cli.DurableHelp)
	cmd.Flags().StringVar(&id, "distinct", "", "id that the hit carries, such as a visitor's: 'weir count --distinct' counts the different ones")
	cmd.Flags().Var(cli.Moment(&at), "at", "time of the hit: RFC 3339 or Unix seconds (default now)")
	return cmd
}

func newKeys(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.KeysQuery{Limit: 100}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List keys",
		Long: `List keys, sorted by their bytes.

If there are more than --limit, a line on standard error says how to continue.`,
		Example: "  weir keys --prefix url:",
		RunE: cli.Ask(w, &r, func(ctx context.Context, c *client.Client, _ []string) (api.KeysAnswer, error) {
			return c.Keys(ctx, q)
		}, func(t *cli.Table, keys api.KeysAnswer) {
			r.Incomplete(w, keys.Freshness)
			for _, key := range keys.Keys {
				t.Row(key)
			}
			// The output is a list for other programs.
			switch {
			case len(keys.Keys) == 0:
				fmt.Fprintln(w.Stderr, "no keys"+ofPrefix(q.Prefix))
			case keys.Next != "":
				fmt.Fprintln(w.Stderr, "there are more keys: continue with --after "+cli.KeyText(keys.Next))
			}
		}),
	}
	r.Define(cmd)
	cli.FreshFlag(cmd, &q.Fresh)
	cli.ScopeFlag(cmd, &q.Scope)
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys with this prefix; keys of limit: are listed only with it")
	cmd.Flags().StringVar(&q.After, "after", "", "only keys that sort after this")
	cmd.Flags().VarP(cli.Number(&q.Limit), "limit", "n", "how many keys to list, at most 5000")
	return cmd
}

func newDelete(w *cli.World) *cobra.Command {
	var r cli.Remote
	q := client.DeleteQuery{}
	cmd := &cobra.Command{
		Use:   "delete KEY...",
		Short: "Delete keys, their hits and their history",
		Long: `Delete keys, their hits and their history. The hits stay counted under the key *. With
--prefix, delete all keys with that prefix, also those that only history has. With
--limits, also reset their limits: usage, grants and bans.`,
		Example: "  weir delete url:/home url:/cart\n  weir delete --prefix user:42: --limits",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case q.Prefix == "" && cmd.Flags().Changed("prefix"):
				return cli.Usage(errors.New("--prefix is empty (an unset shell variable?): to delete all keys, restart the server with an empty --data"))
			case q.Prefix == "" && q.Limits:
				return cli.Usage(errors.New("--limits needs --prefix; to reset one key of one limit, use 'weir limits reset'"))
			case q.Prefix != "" && len(args) == 0:
				return nil
			}
			return cli.Args("KEY...")(cmd, args)
		},
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			deleted := struct {
				Keys []string `json:"deleted"`
			}{[]string{}}
			var failed error
			if q.Prefix != "" {
				n, reset, err := deletePrefix(cmd.Context(), c, q)
				fmt.Fprintf(w.Stderr, "deleted %d keys%s\n", n, ofPrefix(q.Prefix))
				if q.Limits && (err == nil || reset > 0) {
					fmt.Fprintf(w.Stderr, "forgot what keys%s had used of limits: %d were known to this server\n", ofPrefix(q.Prefix), reset)
				}
				failed = err
			}
			for _, key := range args {
				if err := c.Delete(cmd.Context(), key); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", cli.KeyText(key), err))
					continue
				}
				deleted.Keys = append(deleted.Keys, key)
			}
			return errors.Join(r.Print(w.Stdout, deleted, func(t *cli.Table) {
				for _, key := range deleted.Keys {
					t.Row("deleted " + key)
				}
			}), failed)
		}),
	}
	r.Define(cmd)
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "delete all keys with this prefix")
	cmd.Flags().BoolVar(&q.Limits, "limits", false, "with --prefix: also reset their limits")
	return cmd
}

// deletePrefix deletes page by page. It returns how many keys it deleted, and how many limits it reset.
func deletePrefix(ctx context.Context, c *client.Client, q client.DeleteQuery) (n, reset int, err error) {
	for {
		deleted, err := c.DeletePrefix(ctx, q)
		n, reset = n+deleted.Deleted, reset+deleted.Reset
		if err != nil || deleted.Next == "" {
			return n, reset, err
		}
		q.After = deleted.Next
	}
}

// ofPrefix writes, for messages, which keys they are about: "" for all.
func ofPrefix(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " of " + cli.KeyText(prefix) + "..."
}
