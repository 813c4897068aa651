package top

import (
	"math"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/weir-counter/weir/client"
)

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
func uppers(line client.Line) []float64 {
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
