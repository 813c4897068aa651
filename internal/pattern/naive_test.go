package pattern

import "strings"

// naive is what a pattern means, without what makes Match fast: each wildcard tries every length from
// the shortest on, and goes back as often as it takes.
func naive(text, key string) (took map[string]string, ok bool) {
	if text == "" {
		return map[string]string{}, key == ""
	}
	least, name, rest, anything := 0, "", text[1:], false
	switch text[0] {
	case '{':
		name, rest, _ = strings.Cut(text[1:], "}")
		least = 1
		if name, anything = strings.CutSuffix(name, "*"); anything {
			least = 0
		}
	case '*':
	default:
		if key == "" || key[0] != text[0] {
			return nil, false
		}
		return naive(rest, key[1:])
	}
	for n := least; n <= len(key); n++ {
		if name != "" && !anything && strings.ContainsAny(key[:n], ":/") {
			break
		}
		if took, ok = naive(rest, key[n:]); ok {
			if name != "" {
				took[name] = key[:n]
			}
			return took, true
		}
	}
	return nil, false
}
