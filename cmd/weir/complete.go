package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
)

// What the shell offers after a TAB.
const (
	offerKeys = 50
	offerWait = time.Second // a person waits for it
)

// completeKeys offers the server's keys for the first most arguments. Without
// an answer it offers nothing: a shell has no place for an error.
func completeKeys(w *world, r *remote, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if _, err := settle(cmd.Flags(), w.env); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := client.New(r.server, client.Options{Timeout: offerWait, Retries: -1, UserAgent: userAgent()})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		keys, err := c.Keys(cmd.Context(), client.KeysQuery{Prefix: typed, Limit: offerKeys})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		offers := make([]cobra.Completion, 0, len(keys.Keys))
		for _, key := range keys.Keys {
			if keyText(key) == key { // a tab or a line end would end the offer
				offers = append(offers, key)
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
