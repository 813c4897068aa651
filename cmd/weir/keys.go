package main

import (
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

When there are more than --limit, the last line says how to go on.`,
		Example:           "  weir keys --prefix url:",
		Args:              cobra.NoArgs,
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
			return r.print(w.stdout, keys, func(t *table) {
				for _, key := range keys.Keys {
					t.row(keyText(key))
				}
				if keys.Next != "" {
					t.row("... there are more: go on with --after " + keyText(keys.Next))
				}
			})
		}),
	}
	r.define(cmd)
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin with this")
	cmd.Flags().StringVar(&q.After, "after", "", "only keys that sort after this")
	cmd.Flags().VarP(number(&q.Limit), "limit", "n", "how many keys to list, at most 5000")
	return cmd
}

func newDelete(w *world) *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:               "delete KEY",
		Short:             "Delete a key and its hits",
		Long:              "Delete a key and its hits. They stay counted under the key *, which counts all hits.",
		Example:           "  weir delete url:/home",
		Args:              args("KEY"),
		ValidArgsFunction: completeKeys(w, &r, 1),
		RunE: work(w, func(cmd *cobra.Command, args []string, from sources) error {
			c, err := r.client(from)
			if err != nil {
				return err
			}
			if err := c.Delete(cmd.Context(), args[0]); err != nil {
				return err
			}
			return r.print(w.stdout, map[string]string{"deleted": args[0]}, func(t *table) { t.row("deleted") })
		}),
	}
	r.define(cmd)
	return cmd
}
