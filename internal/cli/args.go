package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/units"
)

// Args takes the arguments that the names of a usage line stand for. All that are not in brackets must be given, and a last
// one with "..." may be repeated. Its errors name them.
func Args(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.Contains(name, "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) > 0 && most == 0 && cmd.HasAvailableSubCommands():
			return unknownCommand(cmd, given[0])
		case len(given) < least:
			return fmt.Errorf("%s needs %s: write %s", cmd.CommandPath(), strings.TrimSuffix(names[len(given)], "..."), cmd.UseLine())
		case most >= 0 && len(given) > most:
			return fmt.Errorf("%s does not take %q: write %s", cmd.CommandPath(), given[most], cmd.UseLine())
		}
		return nil
	}
}

// NoArgs is for a command that has commands below and does nothing itself.
func NoArgs(cmd *cobra.Command, given []string) error {
	if len(given) > 0 {
		return unknownCommand(cmd, given[0])
	}
	return nil
}

// warnUnknown tells of variables that look like Weir's and are not: a misspelt one would leave a setting at its default
// in silence. A variable may stand for a flag of any command, for a shell has one environment.
func warnUnknown(w *World, root *cobra.Command) {
	known := variables(nil, root)
	flags := make([]string, len(known))
	for i, name := range known {
		flags[i] = strings.TrimPrefix(name, VariablePrefix)
	}
	for _, entry := range w.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, VariablePrefix) || value == "" || slices.Contains(known, name) {
			continue
		}
		hint := "no flag has it"
		if near := units.Nearest(strings.TrimPrefix(name, VariablePrefix), flags); near != "" {
			hint = "did you mean " + VariablePrefix + near + "?"
		}
		fmt.Fprintf(w.Stderr, "weir: warning: unknown variable %s: %s\n", name, hint)
	}
}

// unknownCommand is the error of a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			names = append(names, below.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %q%s", word, cmd.CommandPath(), units.DidYouMean(word, names))
}

// FlagError says more of a flag that is wrong.
func FlagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && wrong.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, SettingReason(err))
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		if letters[0] < '0' || letters[0] > '9' {
			return err
		}
		if strings.Contains(cmd.Use, "[N]") {
			return fmt.Errorf("wrong N -%s: %s", letters, WholeNumber)
		}
		return fmt.Errorf("-%s looks like a flag: a KEY that begins with - stands after --", letters)
	}
	if name := unknown.GetSpecifiedName(); len(name) == 1 && cmd.Flags().ShorthandLookup(name) != nil {
		return fmt.Errorf("%w, did you mean -%s?", err, name)
	}
	known := flagsOf(cmd)
	of := map[string]string{} // the command below, of flags that cmd does not have
	for _, below := range cmd.Commands() {
		for _, flag := range flagsOf(below) {
			if !below.Hidden && !slices.Contains(known, flag) {
				known = append(known, flag)
				of[flag] = below.CommandPath() + " "
			}
		}
	}
	meant := units.Nearest("--"+unknown.GetSpecifiedName(), known)
	if meant == "" {
		return err
	}
	return fmt.Errorf("%w, did you mean %s%s?", err, of[meant], meant)
}

// flagsOf returns the flags of a command, with their dashes.
func flagsOf(cmd *cobra.Command) (flags []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	return flags
}

// variables appends the variables of the flags of a command and of all below it.
func variables(known []string, cmd *cobra.Command) []string {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, SettingVariable(f.Name)) })
	for _, below := range cmd.Commands() {
		known = variables(known, below)
	}
	return known
}

// CreateOutput makes the file that a flag names, or empties the one that is there, unless it is one of those
// that are read: a slip of the shell's history must not cost a log.
func CreateOutput(flag, path string, stdin io.Reader, read []string) (*os.File, error) {
	if path == "-" {
		return nil, Usage(fmt.Errorf("%s -: standard output has the report already: name a file", flag))
	}
	to, err := os.Stat(path)
	for _, name := range read {
		if from, missing := statRead(name, stdin); err == nil && missing == nil && os.SameFile(to, from) {
			return nil, Usage(fmt.Errorf("%s %s is a file that is read or written: name another one", flag, path))
		}
	}
	return os.Create(path)
}

// statRead is os.Stat, where - is the input, which may be a file too.
func statRead(name string, stdin io.Reader) (fs.FileInfo, error) {
	if file, ok := stdin.(*os.File); ok && name == "-" {
		return file.Stat()
	}
	return os.Stat(name)
}

// apiWords are words of the HTTP API in errors of a server, each with the word of the command line.
var apiWords = strings.NewReplacer("mode=replace", "--mode replace", "durable=true", "--durable", "GET /v1/cluster", "weir cluster")

// reworded is an error with a text of its own.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }

// inFlags says what a server refused in the words of the command line.
func inFlags(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || apiWords.Replace(refused.Detail) == refused.Detail {
		return err
	}
	return reworded{err, strings.Replace(err.Error(), refused.Detail, apiWords.Replace(refused.Detail), 1)}
}

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
	return complete(w, r, most, func(ctx context.Context, c *client.Client, _ string) (names []string, err error) {
		limits, err := c.Limits(ctx, 0)
		for _, l := range limits.Limits {
			names = append(names, l.Name)
		}
		return names, err
	})
}

// CompletePolicies offers the policies that were put by API for the first most arguments.
func CompletePolicies(w *World, r *Remote, most int) cobra.CompletionFunc {
	return complete(w, r, most, func(ctx context.Context, c *client.Client, _ string) (names []string, err error) {
		kept, err := c.Policies(ctx)
		for _, p := range kept.Policies {
			names = append(names, p.Name)
		}
		return names, err
	})
}

// CompleteLimitFlag offers the server's policies for the flag --limit.
func CompleteLimitFlag(cmd *cobra.Command, w *World, r *Remote) {
	completeFlag(cmd, "limit", CompleteLimits(w, r, math.MaxInt))
}

func completeFlag(cmd *cobra.Command, flag string, offer cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // a flag defined twice
	}
}

// complete offers what a server names for the first most arguments. Without an answer
// it offers nothing: a shell has no place for an error.
func complete(w *World, r *Remote, most int, names func(ctx context.Context, c *client.Client, typed string) ([]string, error)) cobra.CompletionFunc {
	ask := func(cmd *cobra.Command, typed string) ([]string, error) {
		from, err := ResolveSettings(cmd.Flags(), w.Env)
		if err != nil {
			return nil, err
		}
		c, err := r.Login.Client(r.server, "Server", from, client.Options{Timeout: offerWait, Retries: -1})
		if err != nil {
			return nil, err
		}
		return names(cmd.Context(), c, typed)
	}
	return func(cmd *cobra.Command, args []string, typed string) (offers []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) < most {
			found, _ := ask(cmd, typed)
			for _, name := range found {
				if strings.HasPrefix(name, typed) && KeyText(name) == name && len(offers) < offerKeys { // a tab or a line end would end the offer
					offers = append(offers, name)
				}
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	}
}
