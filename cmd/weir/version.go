package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/cmd/weir/internal/cli"
)

// version is set by the linker in a release.
var version = ""

// buildVersion is the version of a release, or else of the module that go
// install built, or else "dev".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func versionText() string {
	return fmt.Sprintf("weir %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(w *cli.World) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Args(),
		RunE: cli.Work(w, func(*cobra.Command, []string, cli.Sources) error {
			if asJSON {
				return json.NewEncoder(w.Stdout).Encode(map[string]string{
					"version": buildVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := io.WriteString(w.Stdout, versionText())
			return err
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
