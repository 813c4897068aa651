package middleware

import (
	"net/netip"
	"strings"
)

// Both headers are lists that each proxy appends to, so they are read from the right:
// what trusted proxies wrote is found whatever stands before it. Read from the left, a
// quote that a client opens and does not close would swallow what they wrote.

// lastListed cuts the last element off a line of X-Forwarded-For.
func lastListed(line string) (rest, element string, more bool) {
	comma := strings.LastIndexByte(line, ',')
	if comma < 0 {
		return "", trim(line), false
	}
	return line[:comma], trim(line[comma+1:]), true
}

// listedNode reads an element of X-Forwarded-For: an address, and maybe a port.
func listedNode(element string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(element); err == nil {
		return plain(addr), true
	}
	return nodeAddress(element)
}

// lastElement cuts the last element off a line of Forwarded: a comma within a quoted
// string is none. It runs from the right, where a quote is escaped if an odd number of
// backslashes stand before it.
func lastElement(line string) (rest, element string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"' && !escaped(line[:i]):
			quoted = !quoted
		case c == ',' && !quoted:
			return line[:i], trim(line[i+1:]), true
		}
	}
	return "", trim(line), false
}

func escaped(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

// forwardedNode reads the for= of an element of Forwarded, such as
// for="[2001:db8::1]:4711";proto=https. A node that is unknown or hides its name has no
// address. Of values without quotes it takes more than the RFC does: the colons of
// ports, which proxies write.
func forwardedNode(element string) (addr netip.Addr, ok bool) {
	found := false
	for rest := element; rest != ""; {
		if after, empty := strings.CutPrefix(rest, ";"); empty {
			rest = trim(after)
			continue
		}
		var name, value string
		if name, value, rest, ok = cutPair(rest); !ok {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		found = true
		if addr, ok = nodeAddress(value); !ok {
			return netip.Addr{}, false
		}
	}
	return addr, found
}

// cutPair cuts the first name=value off an element; what is left is empty or begins
// with a semicolon.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, s, ok = strings.Cut(s, "=")
	if !ok || !token(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		value, rest, ok = unquote(s)
		rest = trim(rest)
		return name, value, rest, ok && (rest == "" || rest[0] == ';')
	}
	end := strings.IndexByte(s, ';')
	if end < 0 {
		end = len(s)
	}
	value = trim(s[:end])
	return name, value, s[end:], value != "" && !strings.ContainsAny(value, "\" \t")
}

// unquote reads the quoted string that s begins with, and returns what follows it.
func unquote(s string) (value, rest string, ok bool) {
	var text strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return text.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			fallthrough
		default:
			text.WriteByte(s[i])
		}
	}
	return "", "", false
}

// nodeAddress reads 192.0.2.1, 192.0.2.1:4711, [2001:db8::1] or [2001:db8::1]:4711.
func nodeAddress(node string) (netip.Addr, bool) {
	if inner, port, ok := strings.Cut(strings.TrimPrefix(node, "["), "]"); ok && strings.HasPrefix(node, "[") {
		addr, err := netip.ParseAddr(inner)
		ok = err == nil && addr.Is6() && (port == "" || port[0] == ':' && validPort(port[1:]))
		return plain(addr), ok
	}
	host, port, hasPort := strings.Cut(node, ":")
	addr, err := netip.ParseAddr(host)
	return addr, err == nil && addr.Is4() && (!hasPort || validPort(port))
}

// validPort is a number, or the name that a proxy hides it behind.
func validPort(port string) bool {
	if hidden, ok := strings.CutPrefix(port, "_"); ok {
		return token(hidden)
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return len(port) >= 1 && len(port) <= 5
}

// token is a word of RFC 9110.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

func trim(s string) string { return strings.Trim(s, " \t") }
