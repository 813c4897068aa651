package units

import "strings"

// Excerpt is a text as messages show it: of a long one its beginning, at most 40 bytes.
func Excerpt(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
