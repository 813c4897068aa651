package limits

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

func newForget(w *cli.World) *cobra.Command {
	var r cli.Remote
	all := false
	cmd := &cobra.Command{
		Use:   "forget NAME... | --all",
		Short: "Forget what keys have used of limits that requests brought along",
		Long: `Forget what keys have used of limits that requests brought along (weir allow --limit,
"limit":{...} in POST /v1/allow), by their names or all of them: each key has its
whole burst again. One without a name of its own is called inline/ALGORITHM/PERIOD.

Policies are not touched. The other nodes of a cluster forget a flush interval later.`,
		Example:           "  weir limits forget inline/window/1h\n  weir limits forget --all",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: cli.Work(w, func(cmd *cobra.Command, args []string, from cli.Sources) error {
			switch {
			case all && len(args) > 0:
				return cli.Usage(errors.New("names and --all: choose one"))
			case all:
				args = []string{""}
			case len(args) == 0:
				return cli.Usage(errors.New("name a limit, or write --all"))
			}
			c, err := r.Client(from)
			if err != nil {
				return err
			}
			answer := struct {
				Forgotten int `json:"forgotten"`
			}{}
			for _, name := range args {
				n, err := c.ForgetInline(cmd.Context(), name)
				if err != nil {
					return err
				}
				answer.Forgotten += n
			}
			return r.Print(w.Stdout, answer, func(t *cli.Table) { t.Row(fmt.Sprintf("forgot what %d keys had used", answer.Forgotten)) })
		}),
	}
	r.Define(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "of all limits that requests brought along")
	return cmd
}
