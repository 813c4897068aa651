package statsd

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

// line is a line of StatsD, split. Its parts are those of the line that was read.
type line struct {
	name   []byte
	values []byte  // value[:value...]
	rate   float64 // above 0, at most 1
	tags   []byte  // tag[:value][,tag...]
	at     int64   // Unix seconds; 0: now
}

// split reads a line of a counter. Sections that it does not know it leaves out, as senders add new ones.
func (l *line) split(text []byte) reason {
	*l = line{rate: 1}
	switch {
	case bytes.HasPrefix(text, []byte("_e{")):
		return refusedEvent
	case bytes.HasPrefix(text, []byte("_sc|")):
		return refusedCheck
	}
	name, rest, ok := bytes.Cut(text, []byte{':'})
	if !ok || len(name) == 0 {
		return malformed
	}
	values, rest, ok := bytes.Cut(rest, []byte{'|'})
	if !ok || len(values) == 0 {
		return malformed
	}
	l.name, l.values = name, values
	kind, rest, more := bytes.Cut(rest, []byte{'|'})
	if why := kindOf(kind); why != counted {
		return why
	}
	for more {
		var section []byte
		section, rest, more = bytes.Cut(rest, []byte{'|'})
		if why := l.section(section); why != counted {
			return why
		}
	}
	return counted
}

// kindOf tells why lines of a kind are not counted, counted if they are.
func kindOf(kind []byte) reason {
	switch string(kind) {
	case "c":
		return counted
	case "g":
		return refusedGauge
	case "ms":
		return refusedTimer
	case "h":
		return refusedHistogram
	case "d":
		return refusedDistribution
	case "s":
		return refusedSet
	case "":
		return malformed
	}
	return unknownType
}

func (l *line) section(text []byte) reason {
	if len(text) == 0 {
		return counted
	}
	switch value := text[1:]; text[0] {
	case '@':
		rate, ok := number(value)
		if !ok || !(rate > 0 && rate <= 1) {
			return invalidRate
		}
		l.rate = rate
	case '#':
		l.tags = value
	case 'T':
		at, err := strconv.ParseInt(view(value), 10, 64)
		if err != nil || at <= 0 {
			return invalidTime
		}
		l.at = at
	}
	return counted
}

// number reads a decimal number, with a fraction and an exponent if need be.
func number(text []byte) (float64, bool) {
	whole := len(text) > 0 && len(text) <= 15 // which a float64 has exactly
	var n uint64
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + uint64(c-'0')
		case c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E':
			whole = false
		default: // ParseFloat would take names, hexadecimal digits and underscores
			return 0, false
		}
	}
	if whole {
		return float64(n), true
	}
	f, err := strconv.ParseFloat(view(text), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// view is b as a string, without a copy: for what keeps no part of it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
