package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"charm.land/bubbletea/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

// This part draws the live lists of `weir top`: keys, limits and nodes on a full screen.
//
// Invariants: it follows one view at a time, and costs a server as much as a page of the dashboard. No text of a server
// controls the terminal. The screen fits any terminal from 40 columns and 8 lines.

// TopOptions are what `weir top` begins with.
type TopOptions struct {
	Source  Source
	Server  string // its address, as it is shown
	Window  time.Duration
	Prefix  string
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Top draws until the reader leaves, or ctx ends. Its error says why no view ever came.
func Top(ctx context.Context, o TopOptions) error {
	m := &screen{server: o.Server, zone: time.Local, question: question{window: o.Window, prefix: o.Prefix}}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ))
	var running sync.WaitGroup
	end := func() {}
	m.ask = func(q question) {
		end()
		var asking context.Context
		asking, end = context.WithCancel(ctx)
		running.Go(func() {
			follow(asking, func(arrived func()) error {
				return q.stream(asking, o.Source, func(view any) {
					arrived()
					p.Send(arrival{q, view})
				})
			}, func(err error) { p.Send(loss{q, err}) })
		})
	}
	_, err := p.Run()
	end()
	running.Wait()
	if errors.Is(err, tea.ErrInterrupted) || ctx.Err() != nil && errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	return cmp.Or(err, m.fatal)
}

// tab is a list of the screen.
type tab int

const (
	keysTab tab = iota
	limitsTab
	nodesTab
)

var tabTitles = []string{"Keys", "Limits", "Nodes"}

// windows are the windows of the keys 1 to 9.
var windows = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

const (
	listed    = 100 // keys in a view
	maxPrefix = 512 // bytes
)

// question is what a view answers.
type question struct {
	tab    tab
	window time.Duration
	prefix string // of keys
}

// stream gives the views of the question until ctx or the stream ends.
func (q question) stream(ctx context.Context, from Source, each func(any)) error {
	switch q.tab {
	case limitsTab:
		return from.WatchLimits(ctx, "", q.window, func(v api.LimitsView) { each(v) })
	case nodesTab:
		return from.WatchNodes(ctx, func(v api.NodesView) { each(v) })
	}
	return from.WatchOverview(ctx, client.OverviewQuery{Window: q.window, N: listed, Prefix: q.prefix}, func(v api.OverviewAnswer) { each(v) })
}

type (
	// arrival is a view that answers a question.
	arrival struct {
		of   question
		view any
	}
	// loss is why a stream of views ended; it is asked for again.
	loss struct {
		of  question
		err error
	}
)

// screen is the state of `weir top`.
type screen struct {
	server        string
	zone          *time.Location
	ask           func(question) // follows a question, and no longer the one before
	question      question
	width, height int

	view    any   // the newest answer; nil: none has come
	trouble error // why there is no newer one; nil: there is
	fatal   error // why there never was one
	seen    bool  // there was one
	frozen  bool
	typing  bool // the prefix
	top     int  // first row that is shown
}

// Init implements tea.Model.
func (m *screen) Init() tea.Cmd {
	m.ask(m.question)
	return nil
}

// Update implements tea.Model.
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case arrival:
		if msg.of == m.question && !m.frozen {
			m.view, m.trouble, m.seen = msg.view, nil, true
			m.scroll(0)
		}
	case loss:
		if msg.of != m.question {
			break
		}
		m.trouble = msg.err
		if !m.seen {
			m.fatal = msg.err
			return m, tea.Quit
		}
	case tea.KeyPressMsg:
		return m, m.pressed(msg)
	case tea.PasteMsg:
		if m.typing {
			m.setPrefix(m.question.prefix + msg.Content)
		}
	}
	return m, nil
}

// pressed does what a key says.
func (m *screen) pressed(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c", name == "q" && !m.typing:
		return tea.Quit
	case m.typing:
		m.edit(name, key.Text)
		return nil
	}
	to := m.question
	switch name {
	case "tab", "right":
		to.tab = (to.tab + 1) % tab(len(tabTitles))
	case "shift+tab", "left":
		to.tab = (to.tab + tab(len(tabTitles)) - 1) % tab(len(tabTitles))
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-m.listHeight())
	case "pgdown":
		m.scroll(m.listHeight())
	case "home", "g":
		m.scroll(-listed)
	case "end", "G":
		m.scroll(listed)
	case "p", "space":
		m.frozen = !m.frozen
	case "/":
		m.typing = to.tab == keysTab
	case "esc":
		to.prefix = ""
	default:
		if len(name) == 1 && name[0] >= '1' && name[0] <= '9' {
			to.window = windows[name[0]-'1']
		}
	}
	m.to(to)
	return nil
}

// edit changes the prefix by one key press.
func (m *screen) edit(name, text string) {
	prefix := m.question.prefix
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setPrefix("")
	case "backspace":
		letters := []rune(prefix)
		m.setPrefix(string(letters[:max(0, len(letters)-1)]))
	case "ctrl+u":
		m.setPrefix("")
	default:
		m.setPrefix(prefix + text)
	}
}

func (m *screen) setPrefix(prefix string) {
	if len(prefix) <= maxPrefix {
		m.to(question{tab: keysTab, window: m.question.window, prefix: prefix})
	}
}

// to asks another question.
func (m *screen) to(to question) {
	if to == m.question {
		return
	}
	if to.tab != m.question.tab {
		m.view, m.top = nil, 0
	}
	m.question, m.frozen, m.trouble = to, false, nil
	m.ask(to)
}

// scroll moves the list by so many rows.
func (m *screen) scroll(by int) {
	_, rows := m.list()
	m.top = max(0, min(m.top+by, len(rows)-m.listHeight()))
}

// listHeight is the number of rows that are shown.
func (m *screen) listHeight() int { return max(1, m.height-5) }
