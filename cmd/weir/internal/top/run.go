package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// Options are what `weir top` begins with.
type Options struct {
	Source  Source
	Server  string // its address, as it is shown
	Window  time.Duration
	Prefix  string
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Run draws until the reader leaves, or ctx ends. An error says why there was never anything to see.
func Run(ctx context.Context, o Options) error {
	m := &model{server: o.Server, zone: time.Local, place: place{window: o.Window, prefix: o.Prefix}}
	m.filter[keysScreen] = o.Prefix
	if err := run(ctx, o, m, func(f *follower) { m.turn = f.turn }); err != nil {
		return err
	}
	return m.fatal
}

// run draws a model, whose places are followed by a follower that made has.
func run(ctx context.Context, o Options, m tea.Model, made func(*follower)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ))
	f := &follower{ctx: ctx, from: o.Source, to: p.Send}
	made(f)
	defer f.close()
	defer cancel()
	_, err := p.Run()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// plain is a text without its styles.
func plain(text string) string { return ansi.Strip(text) }
