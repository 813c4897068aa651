package replay

import (
	"bytes"
	"context"
)

// A sink takes the keys' hits from one worker.
type sink interface {
	// line counts n hits of each of the line's keys, of which there may be none.
	// It must not keep them.
	line(at int64, n uint64, keys [][]byte) error
	// flush is called after the last line of each chunk.
	flush(c *chunk)
	// close is called after the last chunk.
	close() error
}

// A worker parses chunks and counts the keys of their lines.
type worker struct {
	sink      sink
	countKeys map[string]int // to the index in Options.CountKeys

	plan   *plan // of the chunks so far; nil before the first
	parser parser
	line   line
	text   []byte   // of the line's keys, one after the other
	keys   [][]byte // cut out of text
	ends   []int    // in text
}

// run works until there are no more chunks. After an error, its own or that of
// another worker, chunks are passed on unread: the collector waits for each.
func (w *worker) run(ctx context.Context, work <-chan *chunk, fail func(error)) {
	for c := range work {
		c.found.reset(len(c.plan.templates))
		if ctx.Err() == nil {
			if err := w.chunk(c); err != nil {
				fail(err)
			}
		}
		c.done <- struct{}{}
	}
	if err := w.sink.close(); err != nil {
		fail(err)
	}
}

func (w *worker) chunk(c *chunk) error {
	if w.plan != c.plan {
		w.plan, w.parser, w.line = c.plan, c.plan.newParser(), c.plan.newLine()
	}
	for text := c.text; len(text) > 0; c.lines++ {
		b := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			b, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		if len(b) > MaxLineBytes {
			c.addMalformed(b, errLongLine)
			continue
		}
		b = trimEnd(b)
		if err := w.parser.parse(b, &w.line); err != nil {
			if len(bytes.TrimSpace(b)) > 0 {
				c.addMalformed(b, err)
			}
			continue
		}
		if w.line.at > c.newest {
			c.ahead++
			continue
		}
		c.addRun(w.line.at, w.line.n)
		if w.line.n > 0 {
			if err := w.count(&c.found); err != nil {
				return err
			}
		}
	}
	w.sink.flush(c)
	return nil
}

// count counts the line under the key of each template.
func (w *worker) count(f *found) error {
	at, n := w.line.at, w.line.n
	w.text, w.ends = w.text[:0], w.ends[:0]
	for i, t := range w.plan.bound {
		start := len(w.text)
		text, ok := t.appendKey(w.text, w.line.fields)
		key := text[start:]
		switch {
		case !ok:
			f.keyless[i] += n
		case !validKey(key):
			f.refused += n
		default:
			if len(w.countKeys) > 0 {
				if k, ok := w.countKeys[string(key)]; ok {
					f.addCount(k, at, n)
				}
			}
			w.text, w.ends = text, append(w.ends, len(text))
		}
	}
	w.keys = w.keys[:0]
	start := 0
	for _, end := range w.ends {
		w.keys = append(w.keys, w.text[start:end])
		start = end
	}
	return w.sink.line(at, n, w.keys)
}
