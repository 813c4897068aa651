package replay

import "bytes"

// tsvKey is the place of the only field of a TSV line in line.fields.
const (
	tsvKey = iota
	tsvFieldCount
)

var tsvFieldNames = [tsvFieldCount]string{"key"}

// tsvParser reads `epoch count [key]`. A line with a tab is cut at tabs, and
// then the key may hold spaces; any other line is cut at spaces. What follows
// the key is not looked at.
type tsvParser struct{}

func (tsvParser) parse(b []byte, l *line) error {
	cut := word
	if bytes.IndexByte(b, '\t') >= 0 {
		cut = cell
	}
	epoch, rest := cut(b)
	count, rest := cut(rest)
	if epoch == nil || count == nil {
		return errNotTSV
	}
	var err error
	if l.at, err = parseEpoch(epoch); err != nil {
		return err
	}
	if l.n, err = parseWeight(count); err != nil {
		return err
	}
	l.fields[tsvKey], _ = cut(rest)
	return nil
}

// cell cuts the text before the first tab off b. It is nil when it is empty.
func cell(b []byte) (c, rest []byte) {
	c, rest, _ = bytes.Cut(b, []byte("\t"))
	return nilIfEmpty(bytes.TrimSpace(c)), rest
}
