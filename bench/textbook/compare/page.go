package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"text/template"
	"time"
)

func counterTable(all []counterFigures) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| design | error, 5 min | with late hits | error, 1 h | lost by 4 goroutines | memory | hit | count |")
	fmt.Fprintln(&b, "|---|--:|--:|--:|--:|--:|--:|--:|")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			f.name, percent(f.inOrder), percent(f.late), percent(f.hour), percent(f.lost), size(f.bytes), duration(f.hit), duration(f.count))
	}
	return b.String()
}

func limiterTable(all []limiterFigures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| design | most in any second, of %d | denied without cause | memory | decision |\n", allowed)
	fmt.Fprintln(&b, "|---|--:|--:|--:|--:|")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", f.name, f.most, percent(f.unjust), size(f.bytes), duration(f.decision))
	}
	return b.String()
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "0"
	case share < 0.0005:
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

func size(bytes int64) string {
	switch {
	case bytes < 1024:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func duration(d time.Duration) string {
	if d < time.Microsecond {
		return fmt.Sprintf("%d ns", d)
	}
	return fmt.Sprintf("%.1f us", float64(d)/1000)
}

const (
	barWidth  = 300
	rowHeight = 24
)

// bar is one design in the picture.
type bar struct {
	Name, Error, Hit string
	ErrorW, HitW, Y  int
	Weir             bool
}

// draw draws the largest error of each design, and what a hit costs on a
// logarithmic scale.
func draw(all []counterFigures) []byte {
	var bars []bar
	for _, f := range all {
		worst := max(f.inOrder, f.late, f.hour, f.lost)
		hit := math.Log10(max(1, float64(f.hit))) / math.Log10(1e5) // 1 ns to 100 us
		bars = append(bars, bar{
			Name: strings.Trim(f.name, "*"), Error: percent(worst), Hit: duration(f.hit),
			ErrorW: max(1, int(min(1, worst)*barWidth)), HitW: max(1, int(min(1, hit)*barWidth)),
			Y: 40 + len(bars)*rowHeight, Weir: strings.HasPrefix(f.name, "**"),
		})
	}
	var out bytes.Buffer
	if err := picture.Execute(&out, struct {
		Height int
		Bars   []bar
	}{40 + len(bars)*rowHeight, bars}); err != nil {
		panic(err) // the template is a constant
	}
	return out.Bytes()
}

var picture = template.Must(template.New("").Funcs(template.FuncMap{"add": func(a, b int) int { return a + b }}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {{.Height}}" width="960" height="{{.Height}}" role="img">
<title>The largest error of each textbook design, and the time of a hit</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.head { font-weight: 600; }
.weir { fill: #0969da; }
.other { fill: #8c959f; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.weir { fill: #4493f8; }
.other { fill: #6e7681; }
}
</style>
<text class="head" x="130" y="22">largest error</text>
<text class="head" x="540" y="22">time of a hit (logarithmic)</text>
{{range .Bars}}<g transform="translate(0 {{.Y}})">
<text x="120" y="14" text-anchor="end">{{.Name}}</text>
<rect class="{{if .Weir}}weir{{else}}other{{end}}" x="130" y="3" width="{{.ErrorW}}" height="14" rx="2"/>
<text x="{{add 138 .ErrorW}}" y="14">{{.Error}}</text>
<rect class="{{if .Weir}}weir{{else}}other{{end}}" x="540" y="3" width="{{.HitW}}" height="14" rx="2"/>
<text x="{{add 548 .HitW}}" y="14">{{.Hit}}</text>
</g>
{{end}}</svg>
`))
