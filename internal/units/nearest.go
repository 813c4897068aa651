package units

import "strings"

// This part finds what somebody may have meant by a misspelt word.

// maxWord bounds the words that are compared, in bytes: no name here is longer.
const maxWord = 64

// DidYouMean is ", did you mean X?" if a word of known is spelled nearly like word, else
// nothing.
func DidYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return ", did you mean " + best + "?"
	}
	return ""
}

// Nearest is the word of known that is nearest to word, of equal ones the first: one with few
// slips for its length, or one that word begins or ends too early. It is "" if there is
// none. Large letters are as small ones.
//
// Cost: O(len(word) * length of all known words).
func Nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", (len(word)+2)/3+1
	for _, k := range known {
		if d := slips(word, strings.ToLower(k)); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best != "" || len(word) <= 2 {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), word) {
			return k
		}
	}
	return ""
}

// slips is how many slips make b of a: a letter changed, added or left out, or two that
// stand next to each other swapped (optimal string alignment).
func slips(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
