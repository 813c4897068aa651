package server

import "strings"

// listed is "key, limit and n".
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// didYouMean is ", did you mean X?" if a name is spelled nearly like word, else nothing.
func didYouMean(word string, names []string) string {
	word = strings.ToLower(word)
	for _, name := range names {
		if nearly(word, name) || len(word) > 2 && strings.HasPrefix(name, word) || strings.TrimSuffix(word, "s") == name {
			return ", did you mean " + name + "?"
		}
	}
	return ""
}

// nearly tells whether one slip makes b of a: a letter changed, added, left out, or two
// that stand next to each other swapped. A name of one letter is like no other.
func nearly(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || len(a) < 2 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) < len(b) {
		return a[i:] == b[i+1:]
	}
	swapped := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	return i == len(a) || a[i+1:] == b[i+1:] || swapped
}
