package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/client"
)

// What the shell offers after a TAB.
const (
	offerKeys = 50
	offerWait = time.Second // a person waits for it
)

// Complete fills in what the commands below root do not say: Args by the words of Use, and no files where Use has no FILE.
func Complete(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		Complete(cmd)
		if cmd.Args == nil {
			cmd.Args = Args(strings.Fields(cmd.Use)[1:]...)
		}
		if cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "FILE") {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
}

// CompleteKeys offers the server's keys for the first most arguments.
func CompleteKeys(w *World, r *Remote, most int) cobra.CompletionFunc {
	return complete(w, r, most, func(ctx context.Context, c *client.Client, typed string) ([]string, error) {
		keys, err := c.Keys(ctx, client.KeysQuery{Prefix: typed, Limit: offerKeys})
		return keys.Keys, err
	})
}

// CompleteLimits offers the server's policies for the first most arguments.
func CompleteLimits(w *World, r *Remote, most int) cobra.CompletionFunc {
	return complete(w, r, most, func(ctx context.Context, c *client.Client, typed string) (names []string, err error) {
		limits, err := c.Limits(ctx, 0)
		for _, l := range limits.Limits {
			if strings.HasPrefix(l.Name, typed) {
				names = append(names, l.Name)
			}
		}
		return names[:min(len(names), offerKeys)], err
	})
}

// CompletePolicies offers the policies that were put by API for the first most arguments.
func CompletePolicies(w *World, r *Remote, most int) cobra.CompletionFunc {
	return complete(w, r, most, func(ctx context.Context, c *client.Client, typed string) (names []string, err error) {
		kept, err := c.Policies(ctx)
		for _, p := range kept.Policies {
			if strings.HasPrefix(p.Name, typed) {
				names = append(names, p.Name)
			}
		}
		return names[:min(len(names), offerKeys)], err
	})
}

// complete offers what a server names for the first most arguments. Without an answer
// it offers nothing: a shell has no place for an error.
func complete(w *World, r *Remote, most int, names func(ctx context.Context, c *client.Client, typed string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if _, err := ResolveSettings(cmd.Flags(), w.Env); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		o, err := r.Login.Options(client.Options{Timeout: offerWait, Retries: -1})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := client.New(r.server, o)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(cmd.Context(), c, typed)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		offers := make([]cobra.Completion, 0, len(found))
		for _, name := range found {
			if KeyText(name) == name { // a tab or a line end would end the offer
				offers = append(offers, name)
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
