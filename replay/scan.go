package replay

import "context"

// Lines is told what is in a log by Scan.
type Lines interface {
	// NewWorker makes what one goroutine does with its parts of the log.
	NewWorker() LineWorker
	// Take gets the parts in the order of the log, from one goroutine. An error
	// ends the scan.
	Take(part any) error
}

// A LineWorker is told the lines of a part of the log, in their order, by one
// goroutine; which part is whose is by chance.
type LineWorker interface {
	// Line is told a line that stands for n > 0 requests at a time in Unix
	// seconds, with the keys that the templates make of it: none, if it has none. It
	// must not keep them.
	Line(at int64, n uint64, keys [][]byte) error
	// Part ends a part: what it returns goes to Take.
	Part() any
}

// Scan reads the files of o as Run does, and tells their lines to lines in place
// of counting their keys. The report has no keys: its Top is the templates, and how
// many requests have no key of each. Follow, To and the questions of o are not used.
func Scan(ctx context.Context, o Options, lines Lines) (*Report, error) {
	o.To, o.Follow, o.FromEnd, o.Status, o.At, o.Windows, o.CountKeys = nil, false, false, nil, nil, nil, nil
	o = o.withDefaults()
	templates, err := o.prepare()
	if err != nil {
		return nil, err
	}
	p := newPipeline(&o, templates, nil)
	p.lines = lines
	return p.finish(ctx)
}

// lineSink tells lines to a LineWorker.
type lineSink struct{ LineWorker }

func (s *lineSink) line(at int64, n uint64, keys [][]byte) error { return s.Line(at, n, keys) }

func (s *lineSink) flush(c *chunk) { c.part = s.Part() }

func (*lineSink) close() error { return nil }
