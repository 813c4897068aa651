package body

import "bytes"

// Check refuses a whole body of more lines than the service takes at once, before any of
// them counts.
func (h *Hits) Check(f Format, whole []byte) error {
	if len(whole) <= h.maxBatch { // a line has a byte at least, with its end
		return nil
	}
	lines := 0
	if sniff(f, whole) == JSONDocument {
		lines = h.elementsOf(whole)
	} else if lines = bytes.Count(whole, []byte{'\n'}); whole[len(whole)-1] != '\n' {
		lines++
	}
	return h.service.CheckBatch(lines)
}

// elementsOf counts the elements of a document, up to one more than there may be.
func (h *Hits) elementsOf(whole []byte) (n int) {
	all := elements{feed: &feed{buf: whole}, maxBytes: h.maxLine}
	for n <= h.maxBatch {
		if _, _, err := all.next(); err != nil {
			break // what is wrong is said when it is read again
		}
		n++
	}
	return n
}
