package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"
)

// median takes the median of each figure over the rounds of each peer, in the order of the peers.
func median(all []*figures) (out []*figures) {
	for _, f := range all {
		if f.round > 0 {
			continue
		}
		rounds := []*figures{}
		for _, other := range all {
			if other.name == f.name {
				rounds = append(rounds, other)
			}
		}
		m := &figures{peer: f.peer, works: make([]workFigures, len(f.works))}
		m.perKey = middle(rounds, func(f *figures) float64 { return f.perKey })
		m.pipe = middle(rounds, func(f *figures) float64 { return f.pipe })
		m.pipeCPU = middle(rounds, func(f *figures) float64 { return f.pipeCPU })
		for i := range f.works {
			to := &m.works[i]
			to.rate = middle(rounds, func(f *figures) float64 { return f.works[i].rate })
			to.cpu = middle(rounds, func(f *figures) float64 { return f.works[i].cpu })
			to.half = middleLatency(rounds, func(f *figures) latency { return f.works[i].half })
			to.same = middleLatency(rounds, func(f *figures) latency { return f.works[i].same })
		}
		out = append(out, m)
	}
	return out
}

func middle[V cmp.Ordered](rounds []*figures, read func(*figures) V) V {
	all := make([]V, len(rounds))
	for i, f := range rounds {
		all[i] = read(f)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func middleLatency(rounds []*figures, read func(*figures) latency) latency {
	return latency{
		middle(rounds, func(f *figures) time.Duration { return read(f).p50 }),
		middle(rounds, func(f *figures) time.Duration { return read(f).p99 }),
		middle(rounds, func(f *figures) time.Duration { return read(f).p999 }),
	}
}

func (l latency) String() string {
	return fmt.Sprintf("%s, %s, %s", micros(l.p50), micros(l.p99), micros(l.p999))
}

// micros writes µs up to a millisecond, and ms above.
func micros(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
}

func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

func (b *bench) page(where string, all []*figures, shared []sharedFigures, missing []string) string {
	var p strings.Builder
	fmt.Fprintf(&p, `# Benchmarks: other rate limiters

Written by `+"`make bench-peers`"+`: do not edit. %s.

![Decisions per second at saturation](pictures/peers.svg)

One server after another on the machine that also runs the client: %d connections on loopback, each with one request at a time, medians of %d rounds of %v.
envoyproxy/ratelimit %s and gubernator %s. Nothing is kept on disk. Latencies are p50, p99 and p99.9, from when a request was due.

- Most: decisions per second at saturation. CPU: of all processes of the server, for one decision.
- At half: latency at half of that. At %s/s: latency at the same rate for all.

`, where, b.connections, b.rounds, b.seconds, moduleVersion(b.ratelimit), moduleVersion(b.gubernator), thousands(float64(b.rate)))
	if len(missing) > 0 {
		fmt.Fprintf(&p, "Not measured, because the program could not be built: %s.\n\n", strings.Join(missing, ", "))
	}
	medians := median(all)
	p.WriteString("limitador and throttlecrab are not Go programs and are not measured.\n\n")
	p.WriteString("| server | asked by | bytes of a key | pipelines of 16: most, CPU |\n|---|---|---:|---|\n")
	for _, f := range medians {
		pipe := ""
		if f.pipe > 0 {
			pipe = fmt.Sprintf("%s/s, %.2g µs", thousands(f.pipe), f.pipeCPU)
		}
		fmt.Fprintf(&p, "| %s | %s | %.0f | %s |\n", bold(f.name), f.asked, f.perKey, pipe)
	}
	titles := []string{
		"## One key, a million admitted per second",
		"## A million keys by Zipf's law (1.1), 100 per minute each",
		"## A thousand keys far over 1 per minute",
	}
	for i, title := range titles {
		fmt.Fprintf(&p, "\n%s\n\n| server | most | CPU | at half | at %s/s |\n|---|---:|---:|---|---|\n", title, thousands(float64(b.rate)))
		for _, f := range medians {
			work := f.works[i]
			fmt.Fprintf(&p, "| %s | %s/s | %.3g µs | %v | %v |\n", bold(f.name), thousands(work.rate), work.cpu, work.half, work.same)
		}
	}
	if len(shared) > 0 {
		fmt.Fprintf(&p, `
## One limit at two gateways

%d per second in all, while each of two addresses is offered %d for %d s. A second is any second, by the times of the answers.

| limiter | admitted per second | most in a second | latency |
|---|---:|---:|---|
`, sharedLimit, sharedOffered/2, sharedSeconds)
		for _, f := range shared {
			fmt.Fprintf(&p, "| %s | %.0f | %d | %v |\n", bold(f.name), f.perSecond, f.most, f.latency)
		}
	}
	return p.String()
}

// moduleVersion is the version of the module that a program is built from.
func moduleVersion(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "(missing)"
	}
	return info.Main.Version
}

func bold(name string) string {
	if strings.HasPrefix(name, "Weir") {
		return "**" + name + "**"
	}
	return name
}

const (
	barWidth  = 480
	rowHeight = 24
)

// draw draws the decisions per second on a million keys.
func draw(medians []*figures) []byte {
	type bar struct {
		Name, Rate string
		W, Y       int
		Weir       bool
	}
	var bars []bar
	most := 1.0
	for _, f := range medians {
		most = max(most, f.works[1].rate)
	}
	for _, f := range medians {
		bars = append(bars, bar{f.name, thousands(f.works[1].rate), max(1, int(f.works[1].rate/most*barWidth)), 40 + len(bars)*rowHeight, strings.HasPrefix(f.name, "Weir")})
	}
	var out bytes.Buffer
	if err := picture.Execute(&out, map[string]any{"Height": 44 + len(bars)*rowHeight, "Bars": bars}); err != nil {
		panic(err) // the template is a constant
	}
	return out.Bytes()
}

var picture = template.Must(template.New("").Funcs(template.FuncMap{"add": func(a, b int) int { return a + b }}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {{.Height}}" width="800" height="{{.Height}}" role="img">
<title>Decisions per second of rate limiters at saturation; longer is better</title>
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
<text class="head" x="180" y="22">decisions per second, a million keys, two cores with the client</text>
{{range .Bars}}<g transform="translate(0 {{.Y}})">
<text x="170" y="14" text-anchor="end">{{.Name}}</text>
<rect class="{{if .Weir}}weir{{else}}other{{end}}" x="180" y="3" width="{{.W}}" height="14" rx="2"/>
<text x="{{add 188 .W}}" y="14">{{.Rate}}</text>
</g>
{{end}}</svg>
`))
