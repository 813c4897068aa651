package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/cmd/weir/internal/cli"
	"github.com/weir-counter/weir/cmd/weir/internal/top"
)

func newWatch(w *cli.World) *cobra.Command {
	var r cli.Remote
	window := time.Minute
	cmd := &cobra.Command{
		Use:   "watch KEY...",
		Short: "Draw the hits of keys as they come",
		Long: fmt.Sprintf(`Draw the hits per second of up to %d keys as lines, on a terminal, until q. 1 to 9 choose a
window, p freezes.

Elsewhere, and with --json, a line is printed for each key and second as it ends, or for each
longer part that a wider --window is drawn in: its end, the hits in it and the key.`, top.MaxWatched),
		Example:           "  weir watch url:/home user:42\n  weir watch '*' | tee hits.log",
		Args:              cli.Args("KEY..."),
		ValidArgsFunction: cli.CompleteKeys(w, &r, top.MaxWatched),
		RunE: cli.Work(w, func(cmd *cobra.Command, keys []string, from cli.Sources) error {
			keys = once(keys)
			if len(keys) > top.MaxWatched {
				return cli.Usage(fmt.Errorf("%d keys: weir watch draws %d at most; weir count asks for more", len(keys), top.MaxWatched))
			}
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			if w.Screen && !r.JSON {
				return top.Watch(cmd.Context(), top.Options{Source: c, Server: r.Server(), Window: window, In: w.Stdin, Out: w.Stdout, Environ: w.Environ}, keys)
			}
			return top.Parts(cmd.Context(), c, keys, window, func(p top.Part) { printPart(w, r.JSON, p) })
		}),
	}
	r.Define(cmd)
	cmd.Flags().VarP(cli.Duration(&window), "window", "w", "window that the lines are drawn over")
	return cmd
}

// once is each of keys once, where it comes first.
func once(keys []string) (list []string) {
	for _, key := range keys {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	return list
}

// printPart writes one line of text or JSON.
func printPart(w *cli.World, asJSON bool, p top.Part) {
	if !asJSON {
		fmt.Fprintf(w.Stdout, "%s  %s  %s\n", p.End.UTC().Format(time.RFC3339), p.Count, cli.KeyText(p.Key))
		return
	}
	_ = json.NewEncoder(w.Stdout).Encode(struct { // a pipe that nobody reads ends the process
		Key   string      `json:"key"`
		At    client.Time `json:"at"`
		StepS int64       `json:"step_s"`
		client.Bounds
	}{p.Key, client.Time{Time: p.End}, int64(p.Step / time.Second), p.Count})
}
