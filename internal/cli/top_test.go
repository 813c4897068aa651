package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
)

var update = flag.Bool("update", false, "write testdata anew")

// end is when all views of these tests end.
var end = time.Unix(1_769_860_800, 0)

func at(t time.Time) api.Time { return api.Time{Time: t} }

func exact(n uint64) api.Bounds {
	return api.Bounds{Lower: n, Estimate: n, Upper: &n, Exact: true}
}

func near(lower, estimate, upper uint64) api.Bounds {
	return api.Bounds{Lower: lower, Estimate: estimate, Upper: &upper}
}

func least(n uint64) api.Bounds { return api.Bounds{Lower: n, Estimate: n} }

// waves are counts of 75 parts around a mean.
func waves(mean, phase float64) []uint64 {
	counts := make([]uint64, 75)
	for i := range counts {
		counts[i] = uint64(math.Round(mean * (1 + 0.8*math.Sin(float64(i)/9+phase))))
	}
	return counts
}

func lineOf(counts []uint64) api.Line {
	return api.Line{From: at(end.Add(-300 * time.Second)), StepSeconds: 4, To: at(end), Estimate: counts}
}

func overview() api.OverviewAnswer {
	v := api.OverviewAnswer{WindowSeconds: 300, At: at(end), All: &api.AllHits{PerSecond: exact(312).Per(1), Hits: exact(91204), Before: exact(88100), Keys: 1_234_567, Line: lineOf(waves(1200, 0))}}
	for i, name := range []string{"url:/", "user:\u202egnp.exe", "日本語のキー", "emoji:👩‍🚀\x1b[31m", "user:" + strings.Repeat("x", 100), "new", "less"} {
		n := uint64(90000 >> i)
		before := exact(n / 2)
		switch name {
		case "new":
			before = exact(0)
		case "less":
			before = near(n, n+9, n+40)
		}
		v.Keys = append(v.Keys, api.KeyView{Key: name, Bounds: near(n-4, n, n+5), Before: before, Line: waves(float64(n)/75, float64(i))})
	}
	for i := range 30 {
		v.Keys = append(v.Keys, api.KeyView{Key: fmt.Sprintf("visitor:%02d", i), Bounds: exact(uint64(40 - i)), Before: exact(40), Line: waves(1, 0)})
	}
	return v
}

func keyView(name string) api.KeyAnswer {
	v := api.KeyAnswer{Key: name, WindowSeconds: 300, At: at(end), Line: lineOf(waves(40, 1)), Before: waves(35, 0)}
	for i, w := range []int64{60, 300, 3600, 86400, 604800} {
		n := uint64(10 * w)
		b := exact(n)
		switch i {
		case 3:
			b = near(n-50, n, n+60)
		case 4:
			b = least(n)
		}
		v.Counts = append(v.Counts, api.KeyWindow{WindowSeconds: w, Bounds: b, Before: exact(n - n/8)})
	}
	v.Line.Lower, v.Line.Upper = make([]uint64, 75), make([]*uint64, 75)
	for i, n := range v.Line.Estimate {
		upper := n
		if i < 20 {
			upper += 40
		}
		v.Line.Lower[i], v.Line.Upper[i] = n, &upper
	}
	return v
}

func limits() api.LimitsView {
	v := api.LimitsView{Freshness: api.Freshness{AsOf: at(end), Late: []api.Late{{Node: "c", Since: at(end.Add(-9 * time.Second))}}}}
	v.WindowSeconds, v.At = 300, at(end)
	for i, p := range []api.LimitPolicy{
		{Name: "login", Keys: "login:{user}:*", By: "login:{user}", Limit: 5, PerSeconds: 60, Burst: 5, Mode: "enforce", Algorithm: "window", Where: "shared", Allowed: exact(80), Denied: exact(111)},
		{Name: "trial", Keys: "api:*", Limit: 50, PerSeconds: 10, Burst: 80, Mode: "shadow", Algorithm: "gcra", Where: "node", Allowed: exact(4432), ShadowDenied: exact(3418)},
		{Name: "quiet", Keys: "x:*", Limit: 1, PerSeconds: 1, Burst: 1, Mode: "enforce", Algorithm: "window", Where: "shared"},
	} {
		v.Limits = append(v.Limits, p)
		zero := lineOf(make([]uint64, 75))
		lines := api.LimitLines{Name: p.Name, Allowed: lineOf(waves(20, 0)), Denied: lineOf(waves(30, float64(i))), ShadowDenied: zero}
		if p.Mode == "shadow" {
			lines.Denied, lines.ShadowDenied = zero, lines.Denied
		}
		v.Lines = append(v.Lines, lines)
	}
	v.Keys = []api.LimitKey{
		{Key: "login:admin", Used: 5, Burst: 5, Share: 1, ResetSeconds: 59.21}, {Key: "login:ada", Used: 1, Burst: 5, Remaining: 4, Share: .2, ResetSeconds: .5},
	}
	return v
}

func nodes() api.NodesView {
	skew, wrong := -0.0123, 0.0004
	c := api.ClusterAnswer{Mode: "cluster", Cluster: "shop", Node: "a", Now: at(end), Nodes: []api.ClusterNode{
		{Node: "a", Self: true, AsOf: at(end), Heard: at(end), Held: 341},
		{Node: "b", AsOf: at(end.Add(-120 * time.Millisecond)), LagS: .12, Heard: at(end.Add(-100 * time.Millisecond)), Held: 342, SkewS: &skew, SkewErrorS: &wrong},
		{Node: "c", AsOf: at(end.Add(-9 * time.Second)), LagS: 9, Heard: at(end.Add(-9 * time.Second)), Held: 341, Late: true, Why: "silent"},
		{Node: "d", Left: true, AsOf: at(end.Add(-time.Hour)), Heard: at(end.Add(-time.Hour))},
	}}
	c.Alarms = []api.Alarm{{Code: "node_late", Message: "node c is silent"}, {Code: "disk", Message: "full"}}
	return api.NodesView{Cluster: c, Stats: api.StatsAnswer{
		Version: "v1", UptimeS: 3700, Hits: 12345, Late: 3, Keys: 17, MemoryBytes: 5 << 20, MemoryBudget: 1 << 30, LimitStates: 9, LimitBytes: 4096,
		Journal: &api.JournalStats{Flushes: 8123, FlushSeconds: .0021},
	}}
}

// screenOf is a screen that follows nobody: asked has what it would.
type screenOf struct {
	*testing.T
	m     *screen
	asked question
}

func newScreen(t *testing.T, width, height int) *screenOf {
	s := &screenOf{T: t}
	s.m = &screen{server: "127.0.0.1:8080", zone: time.UTC, question: question{window: 5 * time.Minute}, ask: func(q question) { s.asked = q }}
	s.m.Init()
	s.m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

// answer is what a server answers.
func (s *screenOf) answer() {
	var view any
	switch s.asked.tab {
	case keysTab:
		all := overview()
		all.Keys = nil
		for _, k := range overview().Keys {
			if strings.HasPrefix(k.Key, s.asked.prefix) {
				all.Keys = append(all.Keys, k)
			}
		}
		view = all
	case limitsTab:
		view = limits()
	case nodesTab:
		view = nodes()
	}
	s.m.Update(arrival{s.asked, view})
}

var specials = map[string]rune{
	"tab": tea.KeyTab, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "space": tea.KeySpace, "backspace": tea.KeyBackspace,
}

// press presses keys, by name or letter, and has each answered.
func (s *screenOf) press(names ...string) {
	for _, name := range names {
		key := tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
		if code, ok := specials[name]; ok {
			key = tea.KeyPressMsg{Code: code}
		}
		if name == "shift+tab" {
			key = tea.KeyPressMsg{Code: tea.KeyTab, Mod: tea.ModShift}
		}
		s.m.Update(key)
		s.answer()
	}
}

// golden compares the screen with testdata.
func (s *screenOf) golden(name string) {
	s.Helper()
	text := ansi.Strip(s.m.View().Content)
	for i, line := range strings.Split(text, "\n") {
		if wide := lipgloss.Width(line); wide > s.m.width {
			s.Errorf("%s: line %d is %d columns wide: %q", name, i, wide, line)
		}
	}
	if lines := strings.Count(text, "\n") + 1; lines != s.m.height {
		s.Errorf("%s: %d lines of %d", name, lines, s.m.height)
	}
	compare(s.T, name, text)
}

func compare(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		text = strings.Replace(text, line, strings.TrimRight(line, " "), 1)
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || text+"\n" != string(want) {
		t.Errorf("%s: %v; go test ./internal/cli -args -update writes it anew\n%s", name, err, text)
	}
}

// Every list, in 80 columns and 24 lines.
func TestScreens(t *testing.T) {
	s := newScreen(t, 80, 24)
	s.golden("asking")
	s.answer()
	s.golden("keys")
	s.press("end")
	s.golden("keys-end")
	s.press("g", "/", "u", "r")
	s.golden("filter")
	s.press("x", "y", "enter")
	s.golden("keys-none")
	s.press("esc", "tab")
	s.golden("limits")
	s.press("tab")
	s.golden("nodes")
}

// control matches what may move the cursor or change the terminal. Styles are removed before.
var control = regexp.MustCompile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\u202e]")

var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

// hostile writes a text that controls terminals into every string of a value.
func hostile(v reflect.Value) {
	const text = "x\x1b]0;title\a\x1b[2J\u202e\u009b\t\r"
	switch v.Kind() {
	case reflect.String:
		if mode := v.String(); mode != "cluster" && mode != "shadow" {
			v.SetString(text)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			hostile(v.Elem())
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			hostile(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				hostile(v.Field(i))
			}
		}
	}
}

// Whatever a server says, no text of it controls the terminal.
func TestHostileViews(t *testing.T) {
	views := map[tab]any{keysTab: ptr(overview()), limitsTab: ptr(limits()), nodesTab: ptr(nodes())}
	for at, view := range views {
		for _, trouble := range []bool{false, true} {
			hostile(reflect.ValueOf(view).Elem())
			s := newScreen(t, 200, 40)
			s.m.question = question{tab: at, prefix: "x\x1b]0;title\a\x1b[2J\u202e\u009b\t\r", window: time.Minute}
			s.m.view, s.m.server = reflect.ValueOf(view).Elem().Interface(), "\x1b[2J"
			if trouble {
				s.m.trouble = errors.New("\x1b[2J")
			}
			if text := styles.ReplaceAllString(s.m.View().Content, ""); control.MatchString(text) {
				t.Errorf("tab %d: %q", at, text)
			}
		}
	}
	var table strings.Builder
	rows := NewTable(&table)
	rows.Row("a key \x1b[2J", "b\tc\n\u202e")
	if err := rows.Flush(); err != nil || table.String() != "a key \\x1b[2J  b\\tc\\n\\u202e\n" {
		t.Errorf("a table writes %q, %v", table.String(), err)
	}
}

func ptr[T any](v T) *T { return &v }

// Where there is more room it is used, and where there is little nothing overflows.
func TestSizes(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {120, 30}, {60, 16}, {40, 8}} {
		s := newScreen(t, size[0], size[1])
		for range 3 {
			s.answer()
			s.golden(fmt.Sprintf("%dx%d-%d", size[0], size[1], s.asked.tab))
			s.press("tab")
		}
	}
	small := newScreen(t, 20, 5)
	if text := small.m.View().Content; !strings.Contains(text, "needs 40 columns") {
		t.Error(text)
	}
}

// Each window key asks for its window; a frozen screen stays as it is; what was asked before is not shown.
func TestKeys(t *testing.T) {
	s := newScreen(t, 80, 24)
	s.answer()
	for i, w := range windows {
		s.press(fmt.Sprint(i + 1))
		if s.asked.window != w {
			t.Errorf("%d asks for %v", i+1, s.asked.window)
		}
	}
	s.press("3", "p")
	before := s.m.View().Content
	other := overview()
	other.All.Hits = exact(1)
	s.m.Update(arrival{s.asked, other})
	if s.m.View().Content != before || !strings.Contains(ansi.Strip(before), "frozen") {
		t.Error("a frozen screen changes")
	}
	s.press("space")
	s.m.Update(arrival{question{tab: limitsTab}, limits()})
	if text := ansi.Strip(s.m.View().Content); !strings.Contains(text, "url:/") {
		t.Errorf("a view of another question is shown: %s", text)
	}
	s.press("down", "down")
	if text := ansi.Strip(s.m.View().Content); s.m.top != 2 || strings.Contains(text, "url:/") {
		t.Errorf("two rows down: %s", text)
	}
	s.press("up", "up", "up")
	s.m.Update(loss{s.asked, io.ErrUnexpectedEOF})
	if text := ansi.Strip(s.m.View().Content); !strings.Contains(text, "lost, trying again") || !strings.Contains(text, "url:/") {
		t.Errorf("a lost connection: %s", text)
	}
	s.answer()
	if text := ansi.Strip(s.m.View().Content); !strings.Contains(text, "live") {
		t.Errorf("it is back: %s", text)
	}
	if _, cmd := s.m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil {
		t.Error("q does not leave")
	}
}

// server is a Source whose views come once, and whose streams then stay open, or fail.
type server struct {
	err error
}

func (s server) once(ctx context.Context, give func()) error {
	if s.err != nil {
		return s.err
	}
	give()
	<-ctx.Done()
	return ctx.Err()
}

func (s server) WatchOverview(ctx context.Context, _ client.OverviewQuery, each func(api.OverviewAnswer)) error {
	return s.once(ctx, func() { each(overview()) })
}

func (s server) WatchKey(ctx context.Context, key string, _ time.Duration, each func(api.KeyAnswer)) error {
	return s.once(ctx, func() { each(keyView(key)) })
}

func (s server) WatchLimits(ctx context.Context, _ string, _ time.Duration, each func(api.LimitsView)) error {
	return s.once(ctx, func() { each(limits()) })
}

func (s server) WatchNodes(ctx context.Context, each func(api.NodesView)) error {
	return s.once(ctx, func() { each(nodes()) })
}

// A program ends with its context, and at once with an error where there never is a server.
func TestTop(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	shown := make(chan string, 1000)
	ended := make(chan error, 1)
	go func() {
		ended <- Top(ctx, TopOptions{Source: server{}, Server: "here", Window: time.Minute, In: nil, Out: writer(shown), Environ: []string{"TERM=xterm"}})
	}()
	<-shown
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := Top(t.Context(), TopOptions{Source: server{refused}, Server: "here", Window: time.Minute, Out: io.Discard}); !errors.Is(err, refused) {
		t.Error(err)
	}
}

type writer chan string

func (w writer) Write(b []byte) (int, error) {
	select {
	case w <- string(b):
	default: // enough is known
	}
	return len(b), nil
}

// The lines of weir watch.
func TestWatch(t *testing.T) {
	var parts []Part
	view := keyView("k")
	last := ended(view, 0, func(p Part) { parts = append(parts, p) })
	if len(parts) != 1 || last != end.Unix()-4 || parts[0].Count.Estimate != view.Line.Estimate[73] {
		t.Errorf("%+v, up to %d", parts, last)
	}
	if last = ended(view, last-12, func(p Part) { parts = append(parts, p) }); len(parts) != 4 || last != end.Unix()-4 {
		t.Errorf("three parts later: %+v", parts)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := Parts(ctx, server{}, []string{"a", "b"}, time.Minute, func(p Part) {
		if p.Key == "b" {
			stop()
		}
	}); err != nil {
		t.Error(err)
	}
	if err := Parts(t.Context(), server{io.EOF}, []string{"a"}, time.Minute, nil); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
