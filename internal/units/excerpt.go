package units

import "strings"

// Excerpt is a text as messages show it: of a long one its beginning, at most 40 bytes.
func Excerpt(text string) string { return Clip(text, 40) }

// Clip is Excerpt with so many bytes at most.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
