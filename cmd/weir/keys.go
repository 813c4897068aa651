package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
)

func newKeys(w *world) *cobra.Command {
	var r remote
	q := client.KeysQuery{Limit: 100}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List keys",
		Long: `List keys, sorted by their bytes.

When there are more than --limit, a line on the error output says how to go on.`,
		Example:           "  weir keys --prefix url:",
		Args:              args(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: work(w, func(cmd *cobra.Command, _ []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			keys, err := c.Keys(cmd.Context(), q)
			if err != nil {
				return err
			}
			r.incomplete(w, keys.Freshness)
			err = r.print(w.stdout, keys, func(t *table) {
				for _, key := range keys.Keys {
					t.row(keyText(key))
				}
			})
			// The output is a list for other programs.
			switch {
			case r.json:
			case len(keys.Keys) == 0:
				fmt.Fprintln(w.stderr, "no keys"+ofPrefix(q.Prefix))
			case keys.Next != "":
				fmt.Fprintln(w.stderr, "there are more keys: go on with --after "+keyText(keys.Next))
			}
			return err
		}),
	}
	r.define(cmd)
	freshFlag(cmd, &q.Fresh)
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this; those of limit: are listed only so")
	cmd.Flags().StringVar(&q.After, "after", "", "only keys that sort after this")
	cmd.Flags().VarP(number(&q.Limit), "limit", "n", "how many keys to list, at most 5000")
	return cmd
}

func newDelete(w *world) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:               "delete KEY...",
		Short:             "Delete keys and their hits",
		Long:              "Delete keys and their hits. They stay counted under the key *, which counts all hits.",
		Example:           "  weir delete url:/home url:/cart",
		Args:              args("KEY..."),
		ValidArgsFunction: completeKeys(w, &r, math.MaxInt),
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			deleted := struct {
				Keys []string `json:"deleted"`
			}{[]string{}}
			var failed error
			for _, key := range args {
				if err := c.Delete(cmd.Context(), key); err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: %w", keyText(key), err))
					continue
				}
				deleted.Keys = append(deleted.Keys, key)
			}
			return errors.Join(r.print(w.stdout, deleted, func(t *table) {
				for _, key := range deleted.Keys {
					t.row("deleted " + keyText(key))
				}
			}), failed)
		}),
	}
	r.define(cmd)
	return cmd
}

// ofPrefix says which keys an empty answer is about.
func ofPrefix(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " of " + keyText(prefix) + "..."
}
