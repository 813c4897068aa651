package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/internal/cli"
)

// The help of serve has all headings, and each flag once below one of them.
func TestServeHelp(t *testing.T) {
	t.Parallel()
	help := mustWeir(t, exitOK, "", "serve", "--help")
	_, flags, _ := strings.Cut(help, "\nExamples:\n")
	for first, heading := range serveHeadings {
		if !regexp.MustCompile("\n" + heading + ":\n .*--" + first + " ").MatchString(flags) {
			t.Errorf("%s does not begin with --%s", heading, first)
		}
	}
	newServe(&cli.World{}).Flags().VisitAll(func(f *pflag.Flag) {
		if n := len(regexp.MustCompile("(?m)^ +--"+f.Name+" ").FindAllString(flags, -1)); n != 1 {
			t.Errorf("--%s stands there %d times", f.Name, n)
		}
	})
}
