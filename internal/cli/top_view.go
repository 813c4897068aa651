package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// Styles use the sixteen colors that the reader's terminal defines, so that they can be read on any background.
var (
	faint  = lipgloss.NewStyle().Faint(true)
	strong = lipgloss.NewStyle().Bold(true)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warn   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	chosen = lipgloss.NewStyle().Reverse(true)
)

// View implements tea.Model.
func (m *screen) View() tea.View {
	v := tea.NewView(m.content())
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}

func (m *screen) content() string {
	if m.width < 40 || m.height < 8 {
		return "weir top needs 40 columns and 8 lines; it looks best from 80 by 24."
	}
	lines := []string{m.head(), m.facts()}
	title, rows := m.list()
	switch {
	case m.view != nil && len(rows) == 0:
		lines = append(lines, faint.Render(title), faint.Render("  "+m.emptyText()))
	case m.view != nil:
		lines = append(lines, faint.Render(title))
		lines = append(lines, rows[m.top:min(len(rows), m.top+m.listHeight())]...)
	case m.trouble == nil:
		lines = append(lines, "", "  asking "+KeyText(m.server)+" ...")
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-2], m.notice(), m.foot())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head has the tabs, the server and the state.
func (m *screen) head() string {
	left := strong.Render(" Weir ") + " "
	for i, title := range tabTitles {
		if tab(i) == m.question.tab {
			left += chosen.Render(" "+title+" ") + " "
		} else {
			left += " " + title + "  "
		}
	}
	state := good.Render("● live")
	switch {
	case m.frozen:
		state = warn.Render("❚❚ frozen")
	case m.trouble != nil && final(m.trouble):
		state = bad.Render("○ refused")
	case m.trouble != nil:
		state = bad.Render("○ lost, trying again")
	case m.view == nil:
		state = faint.Render("○ asking")
	}
	free, right := m.width-lipgloss.Width(left)-1, state+" "+m.at()
	if server := faint.Render(KeyText(m.server)) + "  "; lipgloss.Width(server+right) <= free {
		right = server + right
	}
	return left + strings.Repeat(" ", max(0, free-lipgloss.Width(right))) + right
}

// at is the time of what is shown.
func (m *screen) at() string {
	var at api.Time
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		at = v.At
	case api.LimitsView:
		at = v.At
	case api.NodesView:
		at = v.Cluster.Now
	default:
		return ""
	}
	return at.In(m.zone).Format(time.TimeOnly)
}

// facts is the line below the head: what the list is about.
func (m *screen) facts() string {
	last := units.FormatDuration(m.question.window)
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		if v.All == nil {
			return faint.Render(" the keys that this identity may read, in " + last)
		}
		return fmt.Sprintf(" %s hits/s now   %s in %s %s   %s keys", strong.Render(rateText(v.All.PerSecond.Estimate)),
			strong.Render(countText(v.All.Hits)), last, changeText(v.All.Hits, v.All.Before), strong.Render(units.Grouped(uint64(v.All.Keys))))
	case api.LimitsView:
		return fmt.Sprintf(" policies: %d, decisions in %s", len(v.Limits)+v.More, last)
	case api.NodesView:
		s, mode := v.Stats, "one server, "+KeyText(v.Cluster.Mode)
		if n := len(v.Cluster.Nodes); n > 0 {
			mode = fmt.Sprintf("%d nodes of %s", n, KeyText(cmp.Or(v.Cluster.Cluster, "an existing NATS")))
		}
		return fmt.Sprintf(" %s   memory %s of %s   %s keys   up %s", mode, units.FormatSize(s.MemoryBytes), units.FormatSize(s.MemoryBudget),
			units.Grouped(uint64(s.Keys)), units.FormatDuration(time.Duration(s.UptimeS)*time.Second))
	}
	return ""
}

// Formats of the lists. The last column has the only text of any length.
const (
	keyFormat   = " %9s %11s %8s  %s  %s"
	limitFormat = " %9s %9s %6s  %s  %-15s  %s"
	nodeFormat  = " %9s %9s %10s %6s  %-22s  %s"
)

// list returns the title and the rows of the list.
func (m *screen) list() (title string, rows []string) {
	wide := min(20, max(0, m.width-68)) // of the line of a row
	line := fmt.Sprintf("%-*.*s", wide, wide, "LAST "+strings.ToUpper(units.FormatDuration(m.question.window)))
	switch m.question.tab {
	case keysTab:
		title = fmt.Sprintf(keyFormat, "HITS/S", "HITS", "CHANGE", line, "KEY")
	case limitsTab:
		title = fmt.Sprintf(limitFormat, "ALLOWED", "DENIED", "SHARE", line, "LIMIT", "POLICY")
	case nodesTab:
		title = fmt.Sprintf(nodeFormat, "LAG", "HEARD", "CLOCK", "HOLDS", "STATE", "NODE")
	}
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		for _, k := range v.Keys {
			rate := rateText(float64(k.Estimate) / float64(max(1, v.WindowSeconds)))
			rows = append(rows, fmt.Sprintf(keyFormat, rate, countText(k.Bounds), changeText(k.Bounds, k.Before), spark(k.Line, wide), KeyText(k.Key)))
		}
	case api.LimitsView:
		rows = limitRows(v, wide)
	case api.NodesView:
		for _, n := range v.Cluster.Nodes {
			rows = append(rows, m.nodeRow(n, v.Cluster.Now.Time))
		}
	}
	return title, rows
}

// limitRows has the policies that denied most first.
func limitRows(v api.LimitsView, wide int) (rows []string) {
	type policy struct {
		api.LimitPolicy
		denied api.Bounds
		line   api.Line
		style  lipgloss.Style
	}
	var list []policy
	for i, p := range v.Limits[:min(len(v.Limits), len(v.Lines))] {
		one := policy{p, p.Denied, v.Lines[i].Denied, bad}
		if p.Mode == "shadow" {
			one = policy{p, p.ShadowDenied, v.Lines[i].ShadowDenied, warn}
		}
		if one.denied.Estimate == 0 {
			one.style = lipgloss.NewStyle()
		}
		list = append(list, one)
	}
	slices.SortStableFunc(list, func(a, b policy) int { return cmp.Compare(b.denied.Estimate, a.denied.Estimate) })
	for _, p := range list {
		share := 100 * float64(p.denied.Estimate) / float64(max(1, p.Allowed.Estimate+p.denied.Estimate))
		name := KeyText(p.Name)
		if p.Mode == "shadow" {
			name += " (shadow)"
		}
		limit := KeyText(LimitText(p.Limit, p.Per(), p.Burst, "window", p.Calendar))
		rows = append(rows, p.style.Render(fmt.Sprintf(limitFormat, countText(p.Allowed), countText(p.denied), fmt.Sprintf("%.0f%%", share), spark(p.line.Estimate, wide), limit, name)))
	}
	return rows
}

func (m *screen) nodeRow(n api.ClusterNode, now time.Time) string {
	lag, heard, clock := SecondsText(n.LagS), SecondsText(max(0, now.Sub(n.Heard.Time).Seconds())), ""
	if n.Self || n.Left {
		lag, heard = "", ""
	}
	if n.SkewS != nil {
		clock = SecondsText(*n.SkewS)
	}
	state, style := "in time", good
	switch {
	case n.Left:
		state, style = "left", faint
	case n.Late:
		state, style = KeyText(n.Why)+" since "+n.AsOf.In(m.zone).Format(time.TimeOnly), bad
	case n.Self:
		state = "this one"
	}
	return style.Render(fmt.Sprintf(nodeFormat, lag, heard, clock, fmt.Sprint(n.Held), state, KeyText(n.Node)))
}

// emptyText says why a list is empty, and what to do.
func (m *screen) emptyText() string {
	switch m.question.tab {
	case limitsTab:
		return "there are no policies: weir serve --policy FILE sets them"
	case nodesTab:
		return "this server counts alone"
	}
	if m.question.prefix != "" {
		return "no key with this prefix was hit in this window"
	}
	return "no key was hit in this window: weir hit KEY counts one"
}

// notice is what is wrong, or the prefix.
func (m *screen) notice() string {
	if m.typing {
		return strong.Render(" keys that begin with: ") + KeyText(m.question.prefix) + "▏"
	}
	if m.trouble != nil {
		return bad.Render(" " + KeyText(m.trouble.Error()))
	}
	var late []api.Late
	var alarms []api.Alarm
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		late, alarms = v.Late, v.Alarms
	case api.LimitsView:
		late = v.Freshness.Late
	case api.NodesView:
		late, alarms = v.Cluster.Late, v.Cluster.Alarms
	}
	switch {
	case len(alarms) > 0:
		more := ""
		if len(alarms) > 1 {
			more = fmt.Sprintf(" (and %d more)", len(alarms)-1)
		}
		return bad.Render(fmt.Sprintf(" %s%s: %s", KeyText(alarms[0].Code), more, KeyText(alarms[0].Message)))
	case len(late) > 0:
		return warn.Render(fmt.Sprintf(" %s is late since %s: counts are lower bounds", KeyText(late[0].Node), late[0].Since.In(m.zone).Format(time.TimeOnly)))
	case m.question.tab == keysTab && m.question.prefix != "":
		return faint.Render(" only ") + KeyText(m.question.prefix) + faint.Render("... (esc: all)")
	}
	return ""
}

// foot has the windows and the keys to press.
func (m *screen) foot() string {
	text := " "
	for i, w := range windows {
		style := faint
		if w == m.question.window {
			style = chosen
		}
		text += style.Render(fmt.Sprintf("%d:%s", i+1, units.FormatDuration(w))) + " "
	}
	return text + faint.Render(" Tab  / prefix  p freeze  q")
}

// countText is a number with what is known about it: ≈ is near, ≥ is at least.
func countText(b api.Bounds) string {
	switch {
	case b.Exact:
		return units.Grouped(b.Estimate)
	case b.Upper == nil:
		return "≥" + units.Grouped(b.Lower)
	}
	return "≈" + units.Grouped(b.Estimate)
}

// rateText is a rate per second with about three digits.
func rateText(n float64) string {
	switch {
	case n >= 100:
		return units.Grouped(uint64(math.Round(n)))
	case n > 0 && n < 0.01:
		return "<0.01"
	}
	return fmt.Sprintf("%.3g", n)
}

// changeText is how a count differs from the one before; ≈ says that its sign is in doubt.
func changeText(now, before api.Bounds) string {
	switch {
	case now.Upper == nil || before.Upper == nil:
		return ""
	case before.Estimate == 0 && now.Estimate > 0:
		return "new"
	case now.Estimate == before.Estimate:
		return "="
	}
	part := float64(now.Estimate)/float64(before.Estimate) - 1
	text := fmt.Sprintf("%+.0f%%", 100*part)
	if part > 99 {
		text = ">100×"
	}
	if now.Lower <= *before.Upper && *now.Upper >= before.Lower {
		text = "≈" + text
	}
	return text
}

// eighths are the heights of a column of a line.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// spark draws counts as a line of so many columns. The last part has only begun, and is left out.
func spark(counts []uint64, width int) string {
	counts = counts[:max(0, len(counts)-1)]
	columns, most := make([]float64, width), 0.
	for i := range columns {
		from := i * len(counts) / width
		part := counts[from:max(min(from+1, len(counts)), (i+1)*len(counts)/width)]
		for _, n := range part {
			columns[i] += float64(n) / float64(len(part))
		}
		most = max(most, columns[i])
	}
	line := make([]rune, width)
	for i, n := range columns {
		level := 0
		if n > 0 {
			level = max(1, int(math.Round(8*n/most)))
		}
		line[i] = eighths[level]
	}
	return string(line)
}
