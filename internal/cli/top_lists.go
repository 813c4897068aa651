package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/units"
)

// column is one of a list.
type column struct {
	title string
	width int // 0: what others leave
	right bool
}

// order is what a list may be sorted by: a column, and its rows compared, the first first.
type order[T any] struct {
	column  int
	compare func(a, b T) int
}

var (
	keyColumns   = []column{{"KEY", 0, false}, {"HITS/S", 8, true}, {"HITS", 9, true}, {"CHANGE", 8, true}, {"", sparkWidth, false}}
	limitColumns = []column{{"POLICY", 0, false}, {"LIMIT", 12, false}, {"ALLOWED", 8, true}, {"DENIED", 8, true}, {"SHARE", 6, true}, {"", sparkWidth, false}}
	nodeColumns  = []column{{"NODE", 0, false}, {"STATE", 22, false}, {"LAG", 9, true}, {"HEARD", 9, true}, {"CLOCK", 10, true}, {"HOLDS", 6, true}}
	fullColumns  = []column{{"KEY", 0, false}, {"USED", 16, true}, {"SHARE", 10, true}, {"WHOLE IN", 10, true}}
)

// sparkWidth is the width of the line of a row.
const sparkWidth = 20

var keyOrders = []order[api.KeyView]{
	{1, func(a, b api.KeyView) int { return cmp.Compare(b.Estimate, a.Estimate) }},
	{3, func(a, b api.KeyView) int {
		return cmp.Compare(growth(b.Bounds, b.Before), growth(a.Bounds, a.Before))
	}},
	{0, func(a, b api.KeyView) int { return cmp.Compare(a.Key, b.Key) }},
}

// growth is by how many hits a key has more than before.
func growth(now, before api.Bounds) float64 {
	return float64(now.Estimate) - float64(before.Estimate)
}

// policy is a row of the limits, with its lines.
type policy struct {
	api.LimitPolicy
	lines api.LimitLines
}

// not is what a policy denied, or would have in shadow mode.
func (p policy) not() (api.Bounds, api.Line) {
	if p.Mode == "shadow" {
		return p.ShadowDenied, p.lines.ShadowDenied
	}
	return p.Denied, p.lines.Denied
}

func (p policy) denied() uint64 { not, _ := p.not(); return not.Estimate }

// decided is how many requests it decided, or would have.
func (p policy) decided() uint64 {
	return p.Allowed.Estimate + p.Denied.Estimate + p.ShadowDenied.Estimate
}

// share is the part of decisions that was, or would have been, denied.
func (p policy) share() float64 {
	return float64(p.denied()) / float64(max(1, p.decided()))
}

var limitOrders = []order[policy]{
	{3, func(a, b policy) int { return cmp.Compare(b.denied(), a.denied()) }},
	{2, func(a, b policy) int { return cmp.Compare(b.Allowed.Estimate, a.Allowed.Estimate) }},
	{4, func(a, b policy) int { return cmp.Compare(b.share(), a.share()) }},
	{0, func(a, b policy) int { return cmp.Compare(a.Name, b.Name) }},
}

var nodeOrders = []order[api.ClusterNode]{
	{2, func(a, b api.ClusterNode) int { return cmp.Compare(b.LagS, a.LagS) }},
	{0, func(a, b api.ClusterNode) int { return cmp.Compare(a.Node, b.Node) }},
	{4, func(a, b api.ClusterNode) int { return cmp.Compare(skew(b), skew(a)) }},
	{5, func(a, b api.ClusterNode) int { return cmp.Compare(b.Held, a.Held) }},
}

func skew(n api.ClusterNode) float64 {
	if n.SkewS == nil {
		return 0
	}
	return max(*n.SkewS, -*n.SkewS)
}

// orders are the columns of the orders of each list.
var orders = [keyScreen][]int{columnsOf(keyOrders), columnsOf(limitOrders), columnsOf(nodeOrders)}

func columnsOf[T any](all []order[T]) (columns []int) {
	for _, o := range all {
		columns = append(columns, o.column)
	}
	return columns
}

// arranged are the rows that the filter leaves, as the reader sorts them.
func arranged[T any](m *model, all []T, by []order[T], name func(T) string) []T {
	list := slices.DeleteFunc(slices.Clone(all), func(of T) bool { return !m.matching(name(of)) })
	compare := by[m.sorted[m.place.screen]].compare
	slices.SortStableFunc(list, func(a, b T) int {
		return cmp.Or(compare(a, b), cmp.Compare(name(a), name(b)))
	})
	if m.reversed[m.place.screen] {
		slices.Reverse(list)
	}
	return list
}

func (m *model) keyRows(view api.OverviewAnswer) []row {
	var rows []row
	for _, k := range arranged(m, view.Keys, keyOrders, func(k api.KeyView) string { return k.Key }) {
		changed := change(k.Bounds, k.Before)
		rows = append(rows, row{k.Key, []string{
			k.Key, rateText(float64(k.Estimate) / float64(max(1, view.WindowSeconds))), count(k.Bounds), changeStyle(changed).Render(changed),
			accent.Render(spark(rates(k.Line, 1), sparkWidth)),
		}})
	}
	return rows
}

func policies(view api.LimitsView) []policy {
	list := make([]policy, 0, len(view.Limits))
	for i, p := range view.Limits {
		if i < len(view.Lines) {
			list = append(list, policy{p, view.Lines[i]})
		}
	}
	return list
}

func (m *model) limitRows(view api.LimitsView) []row {
	var rows []row
	for _, p := range arranged(m, policies(view), limitOrders, func(p policy) string { return p.Name }) {
		not, line := p.not()
		style, name := bad, p.Name
		if p.Mode == "shadow" {
			style, name = warn, p.Name+" (shadow)"
		}
		share := ""
		if p.decided() > 0 {
			share = fmt.Sprintf("%.0f%%", 100*p.share())
		}
		rows = append(rows, row{p.Name, []string{
			name, limitText(p.LimitPolicy), count(p.Allowed), style.Render(count(not)), share, style.Render(spark(rates(line.Estimate, 1), sparkWidth)),
		}})
	}
	return rows
}

// limitText is 5/1m, and the burst where it is another number.
func limitText(p api.LimitPolicy) string {
	if p.Calendar != "" {
		return fmt.Sprintf("%d/%s", p.Limit, KeyText(p.Calendar))
	}
	text := fmt.Sprintf("%d/%s", p.Limit, units.FormatDuration(p.Per()))
	if p.Burst != p.Limit {
		text += fmt.Sprintf(" b%d", p.Burst)
	}
	return text
}

// fullestRows are the keys that have used most of a policy, as the server sorts them.
func (m *model) fullestRows(view api.LimitsView) []row {
	var rows []row
	for _, k := range view.Keys {
		share := fmt.Sprintf("%.0f%%", 100*k.Share)
		switch {
		case k.BannedSeconds > 0:
			share = bad.Render("banned")
		case k.Remaining == 0:
			share = bad.Render("denied")
		}
		rows = append(rows, row{k.Key, []string{k.Key, fmt.Sprintf("%d of %d", k.Used, k.Burst), share, seconds(k.ResetSeconds)}})
	}
	return rows
}

func (m *model) nodeRows(view api.NodesView) []row {
	var rows []row
	for _, n := range arranged(m, view.Cluster.Nodes, nodeOrders, func(n api.ClusterNode) string { return n.Node }) {
		state, lag, heard, clock := good.Render("in time"), seconds(n.LagS), seconds(max(0, view.Cluster.Now.Sub(n.Heard.Time).Seconds())), ""
		switch {
		case n.Left:
			state = faint.Render("left")
		case n.Late:
			state = bad.Render(KeyText(n.Why) + " since " + n.AsOf.In(m.zone).Format(time.TimeOnly))
		case n.Self:
			state = good.Render("this one")
		}
		if n.Self || n.Left {
			lag, heard = "", ""
		}
		if n.SkewS != nil {
			clock = seconds(*n.SkewS)
		}
		rows = append(rows, row{n.Node, []string{n.Node, state, lag, heard, clock, fmt.Sprint(n.Held)}})
	}
	return rows
}

// columnsNow are those of the list on the screen, with the column that it is sorted by marked.
func (m *model) columnsNow() []column {
	if m.place.screen == limitScreen {
		return fullColumns
	}
	columns := slices.Clone([][]column{keyColumns, limitColumns, nodeColumns}[m.place.screen])
	by := orders[m.place.screen][m.sorted[m.place.screen]]
	mark := "▾"
	if m.reversed[m.place.screen] {
		mark = "▴"
	}
	columns[by].title += mark
	if last := len(columns) - 1; columns[last].title == "" {
		columns[last].title = "LAST " + strings.ToUpper(units.FormatDuration(m.place.window))
	}
	return columns
}

// eighths are the parts of a cell that are filled from below.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// rates are the counts of a line as hits per second. The last part has only begun, says little, and is left out.
func rates(counts []uint64, step int64) []float64 {
	if len(counts) > 2 {
		counts = counts[:len(counts)-1]
	}
	of := make([]float64, len(counts))
	for i, n := range counts {
		of[i] = float64(n) / float64(max(1, step))
	}
	return of
}

// uppers are the upper bounds of a line as rates; nil: they are the values, or not known.
func uppers(line api.Line) []float64 {
	if line.Upper == nil {
		return nil
	}
	counts := make([]uint64, len(line.Upper))
	for i, n := range line.Upper {
		counts[i] = line.Estimate[i]
		if n != nil {
			counts[i] = *n
		}
	}
	return rates(counts, line.StepSeconds)
}

// fitted spreads values over so many columns: means of several, or each for several columns.
func fitted(values []float64, width int) []float64 {
	of := make([]float64, width)
	if len(values) == 0 {
		return of
	}
	for i := range of {
		from := i * len(values) / width
		to := max(from+1, (i+1)*len(values)/width)
		sum := 0.
		for _, v := range values[from:to] {
			sum += v
		}
		of[i] = sum / float64(to-from)
	}
	return of
}

// spark is a line of one row.
func spark(values []float64, width int) string {
	columns := fitted(values, width)
	most := 0.
	for _, v := range columns {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range columns {
		b.WriteRune(eighths[level(v, most, 8)])
	}
	return b.String()
}

// level is how many of so many steps a value has: at least one, if it is not 0.
func level(v, most float64, steps int) int {
	if v <= 0 || most <= 0 {
		return 0
	}
	return min(steps, max(1, int(math.Round(v/most*float64(steps)))))
}

// axisWidth is the room for numbers left of a chart.
const axisWidth = 7

// chart is a line of several rows with its scale. Where upper is given, it is drawn faintly above values.
func chart(values, upper []float64, width, height int, style lipgloss.Style) []string {
	columns := fitted(values, max(1, width-axisWidth-1))
	above := columns
	if upper != nil {
		above = fitted(upper, len(columns))
	}
	most := 0.
	for i := range columns {
		most = max(most, columns[i], above[i])
	}
	rows := make([]string, height)
	for row := range rows {
		base := (height - 1 - row) * 8 // eighths below this row
		label := ""
		switch row {
		case 0:
			label = rateText(most)
		case height - 1:
			label = "0"
		}
		line := runs{style: style}
		for i := range columns {
			fill := min(8, max(0, level(columns[i], most, height*8)-base))
			doubt := fill == 0 && level(above[i], most, height*8) > base
			if doubt {
				line.add('░', true)
			} else {
				line.add(eighths[fill], false)
			}
		}
		rows[row] = faint.Render(padLeft(label, axisWidth)+"│") + line.String()
	}
	return rows
}

// runs is text in two styles: a sequence that sets one is written only where it changes.
type runs struct {
	style lipgloss.Style
	all   strings.Builder
	run   strings.Builder
	faint bool
}

func (r *runs) add(c rune, faint bool) {
	if faint != r.faint {
		r.flush()
		r.faint = faint
	}
	r.run.WriteRune(c)
}

func (r *runs) flush() {
	style := r.style
	if r.faint {
		style = faint
	}
	r.all.WriteString(style.Render(r.run.String()))
	r.run.Reset()
}

func (r *runs) String() string {
	r.flush()
	return r.all.String()
}
