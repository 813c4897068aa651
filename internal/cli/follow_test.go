package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

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
