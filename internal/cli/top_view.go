package cli

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.content())
	v.AltScreen = true
	v.WindowTitle = "weir top"
	return v
}

func (m *model) content() string {
	if m.width < 40 || m.height < 8 {
		return "weir top needs 40 columns and 8 lines; it looks best from 80 by 24."
	}
	lines := []string{m.head(), m.facts()}
	switch {
	case m.help:
		lines = append(lines, m.helpLines()...)
	case m.view == nil && m.trouble == nil:
		lines = append(lines, "", "  asking "+KeyText(m.server)+" ...")
	case m.view == nil: // the notice says why
	default:
		lines = append(lines, m.body()...)
	}
	room := m.height - 2
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(lines[:room], m.notice(), m.foot())
	for i := range lines {
		lines[i] = pad(lines[i], m.width)
	}
	return strings.Join(lines, "\n")
}

// head has the tabs, the server and the state.
func (m *model) head() string {
	left := strong.Render(" Weir ") + " "
	for _, t := range tabs {
		if t.screen == m.tab() {
			left += chosen.Render(" "+t.title+" ") + " "
		} else {
			left += " " + t.title + "  "
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
	right := faint.Render(KeyText(m.server)) + "  " + state + " " + m.at() + " "
	return left + padLeft(right, max(0, m.width-lipgloss.Width(left)))
}

// at is the time of what is shown.
func (m *model) at() string {
	var at api.Time
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		at = v.At
	case api.KeyAnswer:
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

// facts is the line below the head: what the screen is about.
func (m *model) facts() string {
	last := units.FormatDuration(m.place.window)
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		if v.All == nil {
			return faint.Render(" the keys that this identity may read, in " + last)
		}
		text := fmt.Sprintf(" %s hits/s now   %s in %s", strong.Render(rateText(v.All.PerSecond.Estimate)), strong.Render(count(v.All.Hits)), last)
		if changed := change(v.All.Hits, v.All.Before); changed != "" {
			text += " " + changeStyle(changed).Render(changed)
		}
		return text + fmt.Sprintf("   %s keys", strong.Render(amount(float64(v.All.Keys))))
	case api.KeyAnswer:
		return " " + strong.Render(KeyText(v.Key))
	case api.LimitsView:
		if m.place.screen == limitScreen {
			return m.limitFacts(v)
		}
		return fmt.Sprintf(" %s, decisions in %s", strong.Render(policiesText(len(v.Limits)+v.More)), last)
	case api.NodesView:
		s := v.Stats
		return fmt.Sprintf(" %s   memory %s of %s   %s keys   up %s", strong.Render(modeText(v.Cluster)),
			units.FormatSize(s.MemoryBytes), units.FormatSize(s.MemoryBudget), amount(float64(s.Keys)), units.FormatDuration(time.Duration(s.UptimeS)*time.Second))
	}
	return ""
}

func policiesText(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}

func modeText(c api.ClusterAnswer) string {
	switch c.Mode {
	case "cluster":
		return fmt.Sprintf("%d nodes of cluster %s", len(c.Nodes), KeyText(c.Cluster))
	case "nats":
		return fmt.Sprintf("%d nodes on an existing NATS", len(c.Nodes))
	}
	return "one server, " + KeyText(c.Mode)
}

// body is what is between the facts and the foot.
func (m *model) body() []string {
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		var lines []string
		if v.All != nil && m.chartHeight() > 0 {
			lines = chart(rates(v.All.Line.Estimate, v.All.Line.StepSeconds), uppers(v.All.Line), m.width, m.chartHeight(), accent)
		}
		return append(lines, m.list("no key was hit in this window")...)
	case api.KeyAnswer:
		return m.keyLines(v)
	case api.LimitsView:
		if m.place.screen == limitScreen {
			return append(m.limitLines(v), m.list("no key has used anything of this limit")...)
		}
		return m.list("there are no policies: weir serve --policy FILE sets them")
	case api.NodesView:
		return append(m.list("this server counts alone"), serverLines(v)...)
	}
	return nil
}

// chartHeight is how many rows the chart above a list has.
func (m *model) chartHeight() int {
	switch m.place.screen {
	case keysScreen:
		if m.height < 16 {
			return 0
		}
		return min(10, m.height/5)
	case limitScreen:
		return max(2, min(10, m.height/4))
	}
	return 0
}

// listHeight is how many rows of a list are shown.
func (m *model) listHeight() int {
	used := 5 + m.chartHeight() // head, facts, title, notice, foot
	if m.place.screen == limitScreen {
		used++
	}
	return max(1, m.height-used)
}

// list draws the rows of the screen.
func (m *model) list(empty string) []string {
	columns, rows := m.columnsNow(), m.rows()
	wide := m.width - 1
	for _, c := range columns {
		wide -= c.width + 1
	}
	for wide < 16 && len(columns) > 2 { // a narrow terminal has fewer columns
		last := columns[len(columns)-1]
		columns = columns[:len(columns)-1]
		wide += last.width + 1
	}
	line := func(cells func(i int) string) string {
		var b strings.Builder
		b.WriteByte(' ')
		for i, c := range columns {
			width := c.width
			if width == 0 {
				width = max(8, wide)
			}
			if c.right {
				b.WriteString(padLeft(cells(i), width))
			} else {
				b.WriteString(pad(cells(i), width))
			}
			b.WriteByte(' ')
		}
		return b.String()
	}
	lines := []string{faint.Render(line(func(i int) string { return columns[i].title }))}
	if len(rows) == 0 {
		if m.filter[m.tab()] != "" && m.place.screen < keyScreen {
			empty = "nothing here fits the filter"
		}
		return append(lines, "  "+faint.Render(empty))
	}
	for i := m.top; i < len(rows) && i < m.top+m.listHeight(); i++ {
		text := line(func(c int) string {
			if c == 0 {
				return KeyText(rows[i].cells[0])
			}
			return rows[i].cells[c]
		})
		if i == m.row {
			text = chosen.Render(plain(text))
		}
		lines = append(lines, text)
	}
	return lines
}

// serverLines are the figures of the server that is asked, as far as there is room.
func serverLines(v api.NodesView) []string {
	s := v.Stats
	lines := []string{
		"", fmt.Sprintf(" hits       %d, %d of them late; %d too late, %d too far ahead", s.Hits, s.Late, s.TooLate, s.TooFarAhead),
		fmt.Sprintf(" keys       %d, %d evicted, %d expired", s.Keys, s.EvictedKeys, s.ExpiredKeys),
		fmt.Sprintf(" limits     %d in use, %s", s.LimitStates, units.FormatSize(s.LimitBytes)),
	}
	if j := s.Journal; j != nil {
		lines = append(lines, fmt.Sprintf(" journal    %d flushes on disk, the last in %s; %d failed, %d hits wait", j.Flushes, seconds(j.FlushSeconds), j.Failures, s.Waiting))
	}
	return append(lines, " version    "+KeyText(s.Version))
}

// keyLines is one key: counts of windows, and its line.
func (m *model) keyLines(v api.KeyAnswer) []string {
	lines := []string{faint.Render(" " + padLeft("LAST", 6) + padLeft("HITS", 12) + padLeft("HITS/S", 12) + padLeft("CHANGE", 10) + "   BETWEEN")}
	for _, c := range v.Counts {
		between := "exact"
		switch {
		case c.Upper == nil:
			between = fmt.Sprintf("%d or more", c.Lower)
		case !c.Exact:
			between = fmt.Sprintf("%d and %d", c.Lower, *c.Upper)
		}
		changed := change(c.Bounds, c.Before)
		lines = append(lines, " "+padLeft(units.FormatDuration(time.Duration(c.WindowSeconds)*time.Second), 6)+padLeft(strong.Render(count(c.Bounds)), 12)+
			padLeft(rateText(float64(c.Estimate)/float64(c.WindowSeconds)), 12)+padLeft(changeStyle(changed).Render(changed), 10)+"   "+faint.Render(between))
	}
	lines = append(lines, "", faint.Render(fmt.Sprintf(" hits/s in the last %s; ░: at most", units.FormatDuration(m.place.window))))
	height := max(3, m.height-len(lines)-5)
	lines = append(lines, chart(rates(v.Line.Estimate, v.Line.StepSeconds), uppers(v.Line), m.width, height, accent)...)
	return append(lines, m.axis(v.Line))
}

// axis is the times below a chart.
func (m *model) axis(line api.Line) string {
	layout := time.TimeOnly
	if line.To.Sub(line.From.Time) > 24*time.Hour {
		layout = "Jan 2 15:04"
	}
	from, to := line.From.In(m.zone).Format(layout), line.To.In(m.zone).Format(layout)
	return faint.Render(strings.Repeat(" ", axisWidth+1) + from + padLeft(to, max(0, m.width-axisWidth-1-len(from))))
}

// policyHere is the policy that is looked at.
func (m *model) policyHere(v api.LimitsView) (policy, bool) {
	for _, p := range policies(v) {
		if p.Name == m.place.name {
			return p, true
		}
	}
	return policy{}, false
}

// limitFacts is one policy and its decisions.
func (m *model) limitFacts(v api.LimitsView) string {
	text := " " + strong.Render(KeyText(m.place.name))
	p, ok := m.policyHere(v)
	if !ok {
		return text
	}
	not, _ := p.not()
	denied := bad.Render(count(not) + " denied")
	if p.Mode == "shadow" {
		denied = warn.Render(count(not) + " would be denied")
	}
	return text + "   " + accent.Render(count(p.Allowed)+" allowed") + "   " + denied + " in " + units.FormatDuration(m.place.window)
}

// limitLines is what one policy is, and its decisions over time: those it allowed, and those it did not.
func (m *model) limitLines(v api.LimitsView) []string {
	p, ok := m.policyHere(v)
	if !ok {
		return nil
	}
	_, line := p.not()
	style := bad
	if p.Mode == "shadow" {
		style = warn
	}
	by := p.By
	if by == "" {
		by = "each key"
	}
	height := m.chartHeight()
	lines := []string{faint.Render(fmt.Sprintf(" %s for %s of %s, %s, %s, %s", limitText(p.LimitPolicy), KeyText(by), KeyText(p.Keys), KeyText(p.Algorithm), KeyText(p.Where), KeyText(p.Mode)))}
	lines = append(lines, chart(rates(p.lines.Allowed.Estimate, p.lines.Allowed.StepSeconds), nil, m.width, max(1, height/2), accent)...)
	return append(lines, chart(rates(line.Estimate, line.StepSeconds), nil, m.width, max(1, height-height/2), style)...)
}

// notice is what is wrong, or the filter while it is typed.
func (m *model) notice() string {
	if m.typing {
		word := " that contain: "
		if m.place.screen == keysScreen {
			word = " that begin with: "
		}
		return strong.Render(word) + KeyText(m.filter[m.place.screen]) + "▏"
	}
	if m.trouble != nil {
		return bad.Render(" " + KeyText(m.trouble.Error()))
	}
	var late []api.Late
	var alarms []api.Alarm
	switch v := m.view.(type) {
	case api.OverviewAnswer:
		late, alarms = v.Late, v.Alarms
	case api.KeyAnswer:
		late = v.Late
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
	}
	if m.place.screen < keyScreen && m.filter[m.place.screen] != "" {
		return faint.Render(" only ") + KeyText(m.filter[m.place.screen]) + faint.Render("... (esc: all)")
	}
	return ""
}

// foot has the windows and the keys to press.
func (m *model) foot() string {
	text := " "
	if m.place.screen != nodesScreen {
		for i, w := range windows {
			one := fmt.Sprintf("%d:%s", i+1, units.FormatDuration(w))
			if w == m.place.window {
				text += chosen.Render(one) + " "
			} else {
				text += faint.Render(one) + " "
			}
		}
	}
	keys := "enter s / p ? q"
	if m.width >= lipgloss.Width(text)+46 {
		keys = "enter closer  s sort  / filter  p freeze  ? q"
	}
	return text + padLeft(faint.Render(keys)+" ", max(0, m.width-lipgloss.Width(text)))
}

func (m *model) helpLines() []string {
	return []string{
		"", "  Tab, arrows left and right   keys, limits, nodes",
		"  1 ... 9                      window: 10s, 1m, 5m, 15m, 1h, 6h, 1d, 1w, 30d",
		"  arrows up and down, j, k     choose a row; Page Up and Down, Home, End",
		"  Enter                        look closer at it; Esc goes back",
		"  s, r                         sort by another column; turn the order round",
		"  /                            filter: keys that begin with, others that contain",
		"  p, Space                     freeze what is shown, and go on",
		"  q, Ctrl-C                    leave", "",
		"  ≈ near, ≥ at least: a count that is not exact. An ░ shade is what a line may",
		"  be at most. Under CHANGE is the window against the one before it.",
	}
}
