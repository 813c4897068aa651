package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/internal/units"
)

// Value is a flag of any type that can be read from text.
type Value[T any] struct {
	To    *T
	read  func(string) (T, error)
	write func(T) string
	kind  string // for the help
}

func (v Value[T]) String() string {
	if v.To == nil { // pflag asks a zero value, to know whether to print a default
		return ""
	}
	return v.write(*v.To)
}

func (v Value[T]) Type() string { return v.kind }

func (v Value[T]) Set(s string) (err error) {
	x, err := v.read(s)
	if err == nil {
		*v.To = x
	}
	return err
}

func NewValue[T any](to *T, kind string, read func(string) (T, error), write func(T) string) Value[T] {
	return Value[T]{to, read, write, kind}
}

// WholeNumber is what the N of a command must be.
const WholeNumber = "it must be a whole number, 1 or more"

// positive refuses zero: in a configuration it would stand for the default, and who writes 0 means something else.
func positive[T ~int | ~int64](read func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		x, err := read(s)
		if err == nil && x <= 0 {
			return 0, fmt.Errorf("%q: it must be more than 0", s)
		}
		return x, err
	}
}

// Duration is a flag of a duration of more than 0, such as 5m.
func Duration(to *time.Duration) Value[time.Duration] {
	return Value[time.Duration]{to, positive(units.ParseDuration), units.FormatDuration, "duration"}
}

// Durations is Duration that may be given several times.
func Durations(to *[]time.Duration) Value[[]time.Duration] {
	read := func(s string) ([]time.Duration, error) {
		d, err := positive(units.ParseDuration)(s)
		return append(*to, d), err
	}
	write := func(all []time.Duration) string {
		texts := make([]string, len(all))
		for i, d := range all {
			texts[i] = units.FormatDuration(d)
		}
		return strings.Join(texts, ",")
	}
	return Value[[]time.Duration]{to, read, write, "duration"}
}

// Delay is a duration that may be 0.
func Delay(to *time.Duration) Value[time.Duration] {
	return Value[time.Duration]{to, units.ParseDuration, units.FormatDuration, "duration"}
}

// Size is a flag of a number of bytes of more than 0, such as 64MiB.
func Size(to *int64) Value[int64] {
	return Value[int64]{to, positive(units.ParseSize), units.FormatSize, "size"}
}

// Number is a flag of a whole number from 1.
func Number(to *int) Value[int] {
	read := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	}
	return Value[int]{to, positive(read), strconv.Itoa, "number"}
}

// NumberOrAll takes all, which is 0, or a number from 1.
func NumberOrAll(to *int) Value[int] {
	count := Number(to)
	return Value[int]{To: to, kind: "all|number", read: func(s string) (int, error) {
		if strings.EqualFold(s, "all") {
			return 0, nil
		}
		return count.read(s)
	}, write: func(n int) string {
		if n == 0 {
			return "all"
		}
		return count.write(n)
	}}
}

// Moment is a flag of a time: RFC 3339, or Unix seconds.
func Moment(to *time.Time) Value[time.Time] {
	return Value[time.Time]{to, units.ParseTime, FormatMoment, "time"}
}

// MomentOrAgo is Moment that also takes a duration before now: -365d.
func MomentOrAgo(to *time.Time) Value[time.Time] {
	return Value[time.Time]{to, func(s string) (time.Time, error) {
		ago, ok := strings.CutPrefix(s, "-")
		if !ok {
			return units.ParseTime(s)
		}
		d, err := units.ParseDuration(ago)
		return time.Now().Add(-d).Truncate(time.Second), err
	}, FormatMoment, "time"}
}

// FormatMoment writes a time as RFC 3339 in whole seconds; the zero time as nothing.
func FormatMoment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Choice is a flag that takes one of a few words.
func Choice[T ~string](cmd *cobra.Command, to *T, flag, help string, words ...T) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	v := Value[T]{To: to, kind: strings.Join(texts, "|"), write: func(w T) string { return string(w) }}
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
