package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-counter/weir/api"
)

// keyView is a view whose line ends at a second.
func keyView(end int64) api.KeyAnswer {
	v := api.KeyAnswer{Key: "k", Line: api.Line{From: api.Time{Time: time.Unix(end-300, 0)}, StepSeconds: 4, To: api.Time{Time: time.Unix(end, 0)}}}
	for i := range uint64(75) {
		upper := i
		if i < 20 {
			upper += 40
		}
		v.Line.Estimate = append(v.Line.Estimate, i)
		v.Line.Lower, v.Line.Upper = append(v.Line.Lower, i), append(v.Line.Upper, &upper)
	}
	return v
}

// The lines of weir watch.
func TestWatch(t *testing.T) {
	const end = 1_769_860_800
	var parts []Part
	view := keyView(end)
	last := ended(view, 0, func(p Part) { parts = append(parts, p) })
	if len(parts) != 1 || last != end-4 || parts[0].Count.Estimate != view.Line.Estimate[73] {
		t.Errorf("%+v, up to %d", parts, last)
	}
	if last = ended(view, last-12, func(p Part) { parts = append(parts, p) }); len(parts) != 4 || last != end-4 {
		t.Errorf("three parts later: %+v", parts)
	}
	ctx, stop := context.WithCancel(t.Context())
	once := func(ctx context.Context, key string, _ time.Duration, each func(api.KeyAnswer)) error {
		one := keyView(end)
		one.Key = key
		each(one)
		<-ctx.Done() // the stream stays open
		return ctx.Err()
	}
	if err := Parts(ctx, once, []string{"a", "b"}, time.Minute, func(p Part) {
		if p.Key == "b" {
			stop()
		}
	}); err != nil {
		t.Error(err)
	}
	fails := func(context.Context, string, time.Duration, func(api.KeyAnswer)) error { return io.EOF }
	if err := Parts(t.Context(), fails, []string{"a"}, time.Minute, nil); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// Whatever a server says, no text of it controls the terminal.
func TestHostileTable(t *testing.T) {
	var table strings.Builder
	rows := NewTable(&table)
	rows.Row("a key \x1b[2J", "b\tc\n\u202e")
	if err := rows.Flush(); err != nil || table.String() != "a key \\x1b[2J  b\\tc\\n\\u202e\n" {
		t.Errorf("a table writes %q, %v", table.String(), err)
	}
}

// --every asks until the context ends. An error ends it only before the first answer. A screen is cleared for each answer.
func TestRepeat(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out, errs strings.Builder
	w := &World{Stdout: &out, Stderr: &errs, Screen: true}
	r := Remote{every: time.Millisecond}
	asked := 0
	if err := r.Repeat(ctx, w, func() error {
		if asked++; asked == 2 {
			return errors.New("lost")
		}
		if asked == 4 {
			stop()
		}
		return r.Print(w.Stdout, nil, func(t *Table) { t.Row(fmt.Sprint("answer ", asked)) })
	}); err != nil {
		t.Error(err)
	}
	const clear = "\x1b[H\x1b[2J"
	if want := clear + "answer 1\n" + clear + "answer 3\n" + clear + "answer 4\n"; out.String() != want || errs.String() != "weir: lost\n" {
		t.Errorf("%q and %q, want %q", out.String(), errs.String(), want)
	}
	if err := r.Repeat(t.Context(), w, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	once, n := Remote{}, 0
	if err := once.Repeat(t.Context(), w, func() error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("asked %d times, %v", n, err)
	}
}
