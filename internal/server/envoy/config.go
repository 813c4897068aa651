package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/policy"
)

// This file reads the configuration of envoyproxy/ratelimit unchanged, and finds the limit of a descriptor:
//
//	domain: edge
//	descriptors:
//	  - key: remote_address
//	    rate_limit:
//	      unit: minute
//	      requests_per_unit: 10
//
// ReadConfig reads a file or a folder of files. ParseConfig returns the LimitConfig, or all that is wrong, by file and
// line. A LimitConfig does not change, and knows no server and no engine.
//
// Invariant: each ConfigLimit has a unique Name, which depends on its place alone. The use of keys is kept under that
// name, so reading the files again grants no fresh allowance.

// LimitConfig is the limits of all domains.
type LimitConfig struct {
	domains map[string]*level
	limits  []*ConfigLimit
	content filewatch.Hash
}

// ConfigLimit is one `rate_limit`.
type ConfigLimit struct {
	ID     int    // its place in Config.Limits
	Name   string // rls/DOMAIN/KEY_VALUE/...: what keys have used is kept by it
	Label  string // its `name`, for `replaces` and answers; may be ""
	Domain string
	Path   []ConfigStep // from the domain to the limit

	Requests   uint32 // per period; 0: none passes
	Unit       ConfigUnit
	Multiplier uint32 // how many units the period has; at least 1
	Unlimited  bool   // all pass; Requests, Unit and Multiplier are 0

	Shadow   bool     // it denies nothing
	Quota    bool     // it denies only if all limits of the request that have Quota do
	Detailed bool     // decisions are counted by all values of the descriptor too (detailed_metric)
	Replaces []string // labels of limits that this one replaces in a request

	File string
	Line int
}

// ConfigStep is one descriptor on the way to a limit.
type ConfigStep struct {
	Key   string
	Value string // "": any; a * in it stands for any text, also none
	Share bool   // all values that fit count together
	Count bool   // decisions are counted by the value too (value_to_metric)
}

// Period is the time that Requests are for; 0 if the limit is unlimited.
func (l *ConfigLimit) Period() time.Duration { return time.Duration(l.Multiplier) * l.Unit.Duration() }

// Limits lists all limits, by ID. The list is not to be changed.
func (c *LimitConfig) Limits() []*ConfigLimit { return c.limits }

// Domains is how many domains there are.
func (c *LimitConfig) Domains() int { return len(c.domains) }

// Content is the hash of what the Config was made of.
func (c *LimitConfig) Content() filewatch.Hash { return c.content }

// ConfigUnit is a unit of time, by the numbers of envoy.service.ratelimit.v3.
type ConfigUnit uint8

// The units. A month has 30 days and a year 365, as in envoyproxy/ratelimit.
const (
	UnitSecond ConfigUnit = iota + 1
	Minute
	Hour
	Day
	Month
	Year
	Week
)

type unitWord struct {
	word string
	is   time.Duration
}

var unitTable = []unitWord{
	{}, {"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour},
	{"month", 30 * 24 * time.Hour}, {"year", 365 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
}

// Duration is the length of a unit; 0 if the unit is unknown.
func (u ConfigUnit) Duration() time.Duration {
	if int(u) < len(unitTable) {
		return unitTable[u].is
	}
	return 0
}

func (u ConfigUnit) String() string {
	if int(u) < len(unitTable) && u > 0 {
		return unitTable[u].word
	}
	return "unknown"
}

// Pattern returns the keys that the limit applies to, in the syntax of policies, and the key that they are counted by
// ("": the key itself). It is for people to read: not every pattern is valid in a policy.
func (l *ConfigLimit) Pattern() (keys, by string) {
	captures, shared := 0, false
	capture := func() string {
		captures++
		return fmt.Sprintf("{v%d}", captures)
	}
	escaped := func(text string, name bool) string { return string(appendEscaped(nil, text, name)) }
	k := escaped(l.Domain, false)
	b := k
	for _, s := range l.Path {
		part := ":" + escaped(s.Key, true) + "="
		k, b = k+part, b+part
		if s.Value == "" {
			c := capture()
			k, b = k+c, b+c
			continue
		}
		for i, text := range strings.Split(s.Value, "*") {
			if i > 0 && (text != "" || i == strings.Count(s.Value, "*")) {
				c := capture()
				if k += c; s.Share {
					shared = true
					b += "any"
				} else {
					b += c
				}
			}
			k, b = k+escaped(text, false), b+escaped(text, false)
		}
	}
	if !shared {
		b = ""
	}
	return k, b
}

// LimitKey returns the key that counts a request's descriptor: DOMAIN:KEY=VALUE:KEY=VALUE. An entry without a value is
// its key alone. The characters % : / are written %25 %3A %2F, and = in a key is %3D. So different descriptors have
// different keys, and a {name} of a policy matches one value. A key longer than engine.MaxKeyBytes is cut and ends in
// %~ and a hash of the whole.
func LimitKey(domain string, entries []ConfigEntry) string {
	size := len(domain)
	for _, e := range entries {
		size += 2 + len(e.Key) + len(e.Value)
	}
	b := make([]byte, 0, min(size+16, 4*engine.MaxKeyBytes))
	b = appendEscaped(b, domain, false)
	for _, e := range entries {
		b = appendEntry(append(b, ':'), e.Key, e.Value)
	}
	return string(shorten(b, engine.MaxKeyBytes))
}

func appendEntry(b []byte, key, value string) []byte {
	if b = appendEscaped(b, key, true); value != "" {
		b = appendEscaped(append(b, '='), value, false)
	}
	return b
}

// shorten cuts a text of more than most bytes; it then ends in %~ and a hash of the whole.
func shorten(b []byte, most int) []byte {
	const hashed = 2 + 2*sha256.Size
	if len(b) <= most {
		return b
	}
	sum := sha256.Sum256(b)
	return hex.AppendEncode(append(b[:most-hashed], "%~"...), sum[:])
}

func appendEscaped(b []byte, text string, name bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			b = append(b, "%25"...)
		case c == ':':
			b = append(b, "%3A"...)
		case c == '/':
			b = append(b, "%2F"...)
		case c == '=' && name:
			b = append(b, "%3D"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// namePrefix begins the names of all limits of a Config.
const namePrefix = policy.ListenerPrefix

// maxNameBytes is the longest name of a limit.
const maxNameBytes = 64

// limitName returns the name of the limit at a place: rls/DOMAIN/KEY_VALUE/KEY. Characters that a name can't have
// become -. A name that was changed or is too long is cut and ends in a hash of the place.
func limitName(domain string, path []ConfigStep) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, s := range path {
		b.WriteString("/" + s.Key)
		if s.Value != "" {
			b.WriteString("_" + s.Value)
		}
	}
	place, changed := b.String(), strings.Contains(domain, "/")
	name := []byte(namePrefix + place)
	for i, c := range name[len(namePrefix):] {
		if !isNameByte(c) {
			name[len(namePrefix)+i] = '-'
			changed = true
		}
	}
	for _, s := range path {
		changed = changed || strings.Contains(s.Key+s.Value, "/")
	}
	if !changed && len(name) <= maxNameBytes {
		return string(name)
	}
	const digits = 8
	hash := sha256.New()
	writePart := func(text string) { // no two places are the same bytes
		hash.Write([]byte(text))
		hash.Write([]byte{0})
	}
	writePart(domain)
	for _, s := range path {
		writePart(s.Key)
		writePart(s.Value)
	}
	name = name[:min(len(name), maxNameBytes-1-2*digits)]
	return string(name) + "-" + hex.EncodeToString(hash.Sum(nil)[:digits])
}

func isNameByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._/-", c) >= 0
}
