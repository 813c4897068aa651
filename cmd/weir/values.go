package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-counter/weir/internal/units"
)

// value is a flag of any type that can be read from text.
type value[T any] struct {
	to    *T
	read  func(string) (T, error)
	write func(T) string
	kind  string // for the help
}

func (v value[T]) String() string {
	if v.to == nil { // pflag asks a zero value, to know whether to print a default
		return ""
	}
	return v.write(*v.to)
}

func (v value[T]) Type() string { return v.kind }

func (v value[T]) Set(s string) (err error) {
	x, err := v.read(s)
	if err == nil {
		*v.to = x
	}
	return err
}

// values is a flag that may be given several times.
type values[T any] struct{ value[[]T] }

func newValues[T any](to *[]T, kind string, read func(string) (T, error), write func(T) string) values[T] {
	return values[T]{value[[]T]{
		to: to, kind: kind,
		read: func(s string) ([]T, error) {
			x, err := read(s)
			return append(*to, x), err
		},
		write: func(all []T) string {
			texts := make([]string, len(all))
			for i, x := range all {
				texts[i] = write(x)
			}
			return strings.Join(texts, ",")
		},
	}}
}

// positive refuses zero: in a configuration it would stand for the default,
// and who writes 0 means something else.
func positive[T ~int | ~int64](read func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		x, err := read(s)
		if err == nil && x <= 0 {
			return 0, fmt.Errorf("%q: it must be more than 0", s)
		}
		return x, err
	}
}

func duration(to *time.Duration) value[time.Duration] {
	return value[time.Duration]{to, positive(units.ParseDuration), units.FormatDuration, "duration"}
}

func durations(to *[]time.Duration) values[time.Duration] {
	return newValues(to, "duration", positive(units.ParseDuration), units.FormatDuration)
}

// delay is a duration that may be 0.
func delay(to *time.Duration) value[time.Duration] {
	return value[time.Duration]{to, units.ParseDuration, units.FormatDuration, "duration"}
}

func size(to *int64) value[int64] {
	return value[int64]{to, positive(units.ParseSize), units.FormatSize, "size"}
}

func number(to *int) value[int] {
	read := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	}
	return value[int]{to, positive(read), strconv.Itoa, "number"}
}

func moment(to *time.Time) value[time.Time] {
	return value[time.Time]{to, units.ParseTime, formatMoment, "time"}
}

func formatMoment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// choice is a flag that takes one of a few words.
func choice[T ~string](cmd *cobra.Command, to *T, flag, help string, words ...T) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	v := value[T]{to: to, kind: strings.Join(texts, "|"), write: func(w T) string { return string(w) }}
	v.read = func(s string) (T, error) {
		if w := T(strings.ToLower(s)); slices.Contains(words, w) {
			return w, nil
		}
		return "", fmt.Errorf("%q: it must be %s", s, strings.Join(texts, " or "))
	}
	cmd.Flags().Var(v, flag, help)
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a flag defined twice
	}
}
