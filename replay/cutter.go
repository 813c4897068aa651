package replay

import "bytes"

// A cutter cuts a stream of text into whole lines. Between two calls it holds
// the start of a line whose end has not come yet: less than chunkBytes.
type cutter struct {
	carry []byte
	skip  bool // in a line of chunkBytes or more, of which the start was given out
}

// fill copies the start of the unfinished line to the start of buf.
func (c *cutter) fill(buf []byte) int {
	n := copy(buf, c.carry)
	c.carry = c.carry[:0]
	return n
}

// cut gives the whole lines at the start of text, which begins with what fill
// copied, and holds the rest. With ended the last line is whole although it
// lacks its line end.
//
// Of a line that fills a chunk it gives out just enough for the worker to see
// that it is longer than MaxLineBytes.
func (c *cutter) cut(text []byte, ended bool) []byte {
	if c.skip {
		end := bytes.IndexByte(text, '\n')
		c.skip = end < 0 && !ended
		if end < 0 {
			return nil
		}
		text = text[end+1:]
	}
	if ended {
		return text
	}
	if len(text) == chunkBytes && bytes.IndexByte(text, '\n') < 0 {
		c.skip = true
		return text[:MaxLineBytes+1]
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	c.carry = append(c.carry, text[whole:]...)
	return text[:whole]
}
