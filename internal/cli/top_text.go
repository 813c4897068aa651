package cli

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/weir-counter/weir/api"
)

// Styles are of the sixteen colours that a terminal has by its own theme, so that they can be read on any ground.
var (
	faint  = lipgloss.NewStyle().Faint(true)
	strong = lipgloss.NewStyle().Bold(true)
	accent = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warn   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	chosen = lipgloss.NewStyle().Reverse(true)
)

// amount is a number in seven columns at most.
func amount(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if n >= unit.size {
			return three(n/unit.size) + unit.name
		}
	}
	if n >= 100_000 {
		return three(n/1000) + "k"
	}
	return strconv.FormatFloat(math.Round(n), 'f', 0, 64)
}

// three is a number with three digits or those before the point.
func three(n float64) string {
	switch {
	case n >= 100:
		return strconv.FormatFloat(n, 'f', 0, 64)
	case n >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// rateText is a rate per second.
func rateText(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.01:
		return "<0.01"
	case n < 1000:
		return three(n)
	}
	return amount(n)
}

// count is a number with what is known of it: ≈ is near, ≥ is at least.
func count(b api.Bounds) string {
	switch {
	case b.Exact:
		return amount(float64(b.Estimate))
	case b.Upper == nil:
		return "≥" + amount(float64(b.Lower))
	}
	return "≈" + amount(float64(b.Estimate))
}

// change is how a count differs from the one before; ≈ says that its sign is in doubt.
func change(now, before api.Bounds) string {
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

// changeStyle is of a text that change made.
func changeStyle(text string) lipgloss.Style {
	if strings.Contains(text, "+") || text == "new" || strings.HasPrefix(text, ">") {
		return good
	}
	return faint
}

// pad cuts or fills a text, which may have styles, to a width.
func pad(text string, width int) string {
	if width <= 0 {
		return ""
	}
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
}

// padLeft is pad with the room on the left.
func padLeft(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return strings.Repeat(" ", max(0, width-lipgloss.Width(text))) + text
}

// seconds is a time that passed, to about three digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case s < 0:
		return "-" + seconds(-s)
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	case d < 100*time.Second:
		return d.Round(time.Second / 10).String()
	}
	return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
}

// MaxWatched is how many keys `weir watch` takes.
const MaxWatched = 8

func placesOf(keys []string, window time.Duration) []place {
	places := make([]place, len(keys))
	for i, key := range keys {
		places[i] = place{screen: keyScreen, name: key, window: window}
	}
	return places
}

// Part is the hits of a key in one part of time that is over.
type Part struct {
	Key   string
	End   time.Time
	Step  time.Duration
	Count api.Bounds
}

// Parts gives the parts of keys as they end, from the newest on, until ctx ends or a server refuses. A part is a
// second, where the window is a minute. Each is given once: after a view that was missed, those between.
func Parts(ctx context.Context, from Source, keys []string, window time.Duration, each func(Part)) error {
	ctx, cancel := context.WithCancel(ctx)
	views := make(chan tea.Msg)
	f := &follower{ctx: ctx, from: from, to: func(m tea.Msg) {
		select {
		case views <- m:
		case <-ctx.Done():
		}
	}}
	defer f.close()
	defer cancel()
	f.turn(placesOf(keys, window)...)
	newest := map[string]int64{}
	seen := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg := <-views:
			switch msg := msg.(type) {
			case lost:
				if !seen || final(msg.err) {
					return msg.err
				}
			case arrived:
				seen = true
				if view, ok := msg.view.(api.KeyAnswer); ok {
					newest[view.Key] = ended(view, newest[view.Key], each)
				}
			}
		}
	}
}

// ended gives the parts of a view that ended after one second, or the last, and returns when the last ended.
func ended(view api.KeyAnswer, after int64, each func(Part)) int64 {
	line := view.Line
	for i := range line.Estimate {
		end := line.From.Unix() + int64(i+1)*line.StepSeconds
		if end >= line.To.Unix() { // it goes on
			break
		}
		if next := end + line.StepSeconds; end <= after || after == 0 && next < line.To.Unix() {
			continue
		}
		estimate := line.Estimate[i]
		b := api.Bounds{Lower: estimate, Estimate: estimate, Upper: &estimate, Exact: true}
		if line.Lower != nil && line.Upper != nil {
			b = api.Bounds{Lower: line.Lower[i], Estimate: estimate, Upper: line.Upper[i], Exact: line.Upper[i] != nil && line.Lower[i] == *line.Upper[i]}
		}
		each(Part{Key: view.Key, End: time.Unix(end, 0), Step: time.Duration(line.StepSeconds) * time.Second, Count: b})
		after = end
	}
	return after
}
