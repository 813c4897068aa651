package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/policy"
)

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
