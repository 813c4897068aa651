package cli

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbletea/v2"
	"github.com/weir-counter/weir/api"
)

// screen is what fills the terminal.
type screen int

const (
	keysScreen screen = iota
	limitsScreen
	nodesScreen
	keyScreen   // one key, reached from its row
	limitScreen // one policy
)

// tabs are the screens that Tab goes through.
var tabs = []struct {
	screen screen
	title  string
}{{keysScreen, "Keys"}, {limitsScreen, "Limits"}, {nodesScreen, "Nodes"}}

// windows are those of the keys 1 to 9.
var windows = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// model is the state of `weir top`.
type model struct {
	server        string
	zone          *time.Location
	turn          func(...place) // follows what is asked for
	place         place
	width, height int

	view     any   // the newest of place; nil: none has come
	trouble  error // why there is no newer one; nil: there is
	fatal    error // why nothing was ever to be seen
	seen     bool  // something was
	frozen   bool
	help     bool
	typing   bool // the filter
	filter   [keyScreen]string
	sorted   [keyScreen]int // column that a list is sorted by
	reversed [keyScreen]bool
	row, top int // chosen row, first row that is shown
	was      row // what is chosen
}

// row is what a row of a list leads to.
type row struct {
	name  string
	cells []string
}

func (m *model) Init() tea.Cmd {
	m.turn(m.place)
	return nil
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case arrived:
		if msg.of == m.place && !m.frozen {
			m.view, m.trouble, m.seen = msg.view, nil, true
			m.keepRow()
		}
	case lost:
		if msg.of != m.place {
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
			m.typed(m.filter[m.place.screen] + msg.Content)
		}
	}
	return m, nil
}

// pressed does what a key says.
func (m *model) pressed(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.typingKey(name, key.Text)
		return nil
	case m.help:
		m.help = false
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "tab", "right":
		m.toTab(1)
	case "shift+tab", "left":
		m.toTab(len(tabs) - 1)
	case "up", "k":
		m.choose(m.row - 1)
	case "down", "j":
		m.choose(m.row + 1)
	case "pgup":
		m.choose(m.row - m.listHeight())
	case "pgdown":
		m.choose(m.row + m.listHeight())
	case "home", "g":
		m.choose(0)
	case "end", "G":
		m.choose(len(m.rows()) - 1)
	case "enter":
		m.closer()
	case "esc", "backspace":
		m.back()
	case "p", "space":
		m.frozen = !m.frozen
	case "s":
		if m.place.screen < keyScreen {
			m.sorted[m.place.screen] = (m.sorted[m.place.screen] + 1) % len(orders[m.place.screen])
			m.keepRow()
		}
	case "r":
		if m.place.screen < keyScreen {
			m.reversed[m.place.screen] = !m.reversed[m.place.screen]
			m.keepRow()
		}
	case "/":
		m.typing = m.place.screen < keyScreen
	default:
		if len(name) == 1 && name[0] >= '1' && name[0] <= '9' && m.place.screen != nodesScreen {
			to := m.place
			to.window = windows[name[0]-'1']
			m.to(to)
		}
	}
	return nil
}

// typingKey changes the filter.
func (m *model) typingKey(name, text string) {
	now := m.filter[m.place.screen]
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.typed("")
	case "backspace":
		letters := []rune(now)
		m.typed(string(letters[:max(0, len(letters)-1)]))
	case "ctrl+u":
		m.typed("")
	default:
		m.typed(now + text)
	}
}

// maxFilter is the longest key.
const maxFilter = 512

// typed sets the filter: of keys the server is asked for those that begin with it.
func (m *model) typed(filter string) {
	if len(filter) > maxFilter || filter == m.filter[m.place.screen] {
		return
	}
	m.filter[m.place.screen] = filter
	if m.place.screen == keysScreen {
		to := m.place
		to.prefix = filter
		m.to(to)
		return
	}
	m.keepRow()
}

// to looks at another place.
func (m *model) to(to place) {
	if to == m.place {
		return
	}
	if to.screen != m.place.screen || to.name != m.place.name {
		m.view, m.was, m.row, m.top = nil, row{}, 0, 0
	}
	m.place, m.frozen, m.trouble = to, false, nil
	m.turn(to)
}

// toTab goes so many tabs to the right.
func (m *model) toTab(by int) {
	at := slices.IndexFunc(tabs, func(t struct {
		screen screen
		title  string
	}) bool {
		return t.screen == m.tab()
	})
	m.toScreen(tabs[(at+by)%len(tabs)].screen)
}

func (m *model) toScreen(s screen) {
	to := place{screen: s, window: m.place.window}
	if s == keysScreen {
		to.prefix = m.filter[keysScreen]
	}
	if s == nodesScreen && m.place.screen != nodesScreen {
		to.window = m.place.window // it has none, and the next tab keeps it
	}
	m.to(to)
}

// tab is the list that the screen belongs to.
func (m *model) tab() screen {
	switch m.place.screen {
	case keyScreen:
		return keysScreen
	case limitScreen:
		return limitsScreen
	}
	return m.place.screen
}

// closer looks at what the chosen row is about.
func (m *model) closer() {
	if m.was.name == "" {
		return
	}
	switch m.place.screen {
	case keysScreen, limitScreen:
		m.to(place{screen: keyScreen, name: m.was.name, window: m.place.window})
	case limitsScreen:
		m.to(place{screen: limitScreen, name: m.was.name, window: m.place.window})
	}
}

// back returns to the list, or takes its filter away.
func (m *model) back() {
	if m.place.screen >= keyScreen {
		m.toScreen(m.tab())
		return
	}
	m.typed("")
}

// choose chooses a row.
func (m *model) choose(at int) {
	rows := m.rows()
	m.row = min(max(0, at), max(0, len(rows)-1))
	m.was = row{}
	if len(rows) > 0 {
		m.was = rows[m.row]
	}
	height := m.listHeight()
	m.top = min(m.top, m.row)
	m.top = max(m.top, m.row-height+1, 0)
}

// keepRow keeps what is chosen where the list has changed: its name once somebody went to it, else the place.
func (m *model) keepRow() {
	rows := m.rows()
	at := m.row
	if m.row > 0 {
		if found := slices.IndexFunc(rows, func(r row) bool { return r.name == m.was.name }); found >= 0 {
			at = found
		}
	}
	m.choose(at)
}

// matching tells whether a name is among what the filter leaves.
func (m *model) matching(name string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(m.filter[m.place.screen]))
}

// rows are those of the list on the screen.
func (m *model) rows() []row {
	switch view := m.view.(type) {
	case api.OverviewAnswer:
		return m.keyRows(view)
	case api.LimitsView:
		if m.place.screen == limitScreen {
			return m.fullestRows(view)
		}
		return m.limitRows(view)
	case api.NodesView:
		return m.nodeRows(view)
	}
	return nil
}
