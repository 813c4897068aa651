package main

import (
	"fmt"
	"io"
	"slices"

	"golang.org/x/perf/benchfmt"
)

// results are all measurements of a run.
type results struct {
	machine map[string]string    // configuration lines
	samples map[string][]float64 // by "name unit", in order of rounds; times in ns
	names   []string             // in order of appearance
}

// parse reads lines in the format of Go benchmarks; others are passed over.
func parse(lines io.Reader) (*results, error) {
	r := &results{map[string]string{}, map[string][]float64{}, nil}
	reader := benchfmt.NewReader(lines, "benchmarks")
	for reader.Scan() {
		switch line := reader.Result().(type) {
		case *benchfmt.Result:
			r.add(line)
		case *benchfmt.SyntaxError:
			return nil, line
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if len(r.names) == 0 {
		return nil, fmt.Errorf("no benchmark lines")
	}
	return r, nil
}

func (r *results) add(line *benchfmt.Result) {
	for _, c := range line.Config {
		r.machine[c.Key] = string(c.Value)
	}
	name := plainName(line.Name)
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
	for _, v := range line.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" { // ns/op has become sec/op
			value, unit = v.OrigValue, v.OrigUnit
		}
		r.samples[name+" "+unit] = append(r.samples[name+" "+unit], value)
	}
}

// plainName is the name without the number of processors, "-2".
func plainName(name benchfmt.Name) string {
	base, parts := name.Parts()
	plain := string(base)
	for _, part := range parts {
		if part[0] == '/' {
			plain += string(part)
		}
	}
	return plain
}

// sample is a set of measurements of one thing, one from each round.
type sample []float64

func (r *results) get(name, unit string) sample { return r.samples[name+" "+unit] }

// over divides round by round; where the numbers of rounds differ, by the
// other's median. Rounds in which the other is 0 are left out.
func (s sample) over(o sample) (ratios sample) {
	for i := range s {
		switch {
		case len(o) == 0:
		case len(s) != len(o):
			ratios = append(ratios, s[i]/o.median())
		case o[i] != 0:
			ratios = append(ratios, s[i]/o[i])
		}
	}
	return ratios
}

// less subtracts round by round, down to nothing.
func (s sample) less(o sample) sample {
	rest := make(sample, min(len(s), len(o)))
	for i := range rest {
		rest[i] = max(0, s[i]-o[i])
	}
	return rest
}

func (s sample) times(factor float64) sample {
	product := slices.Clone(s)
	for i := range product {
		product[i] *= factor
	}
	return product
}

// median returns the median. The sample must have at least one measurement.
func (s sample) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// String returns the median, with the largest deviation from it if that is above 10 %, or a dash for what was not measured.
func (s sample) String() string {
	switch len(s) {
	case 0:
		return "—"
	case 1:
		return number(s[0])
	}
	median := s.median()
	if median == 0 {
		return fmt.Sprintf("%s (%s..%s)", number(median), number(slices.Min(s)), number(slices.Max(s)))
	}
	deviation := fmt.Sprintf("%.0f", 100*max(median-slices.Min(s), slices.Max(s)-median)/median)
	if len(deviation) == 1 || deviation == "10" {
		return number(median)
	}
	return number(median) + "\u00a0±" + deviation + "%"
}

// number has three digits that count.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return whole(v)
}

// whole has no fraction, and commas.
func whole(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
