package main

import "github.com/spf13/cobra"

func newLimits(w *world) *cobra.Command {
	cmd := &cobra.Command{Use: "limits", Short: "Try limits out"}
	cmd.AddCommand(newLimitsReplay(w))
	return cmd
}
