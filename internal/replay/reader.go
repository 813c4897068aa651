package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/weir-counter/weir/client"
)

// reader cuts the files into chunks of whole lines. It owns the channels that it sends to, and closes them. Both hold every chunk of
// the pool.
type reader struct {
	opts      *Options
	templates []template
	plan      *plan // set by the first lines of the first file

	free  <-chan *chunk
	work  chan<- *chunk // to the workers, in any order
	order chan<- *chunk // to the collector, in the order of the log

	spare *chunk // taken from free, and not sent yet
}

// run reads all files. It calls problem for a file that can't be read to its end, and goes on with the others.
func (r *reader) run(ctx context.Context, problem func(file int, err error)) error {
	defer close(r.work)
	defer close(r.order)
	for i := range r.opts.Files {
		err := r.file(ctx, i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wrong := (*OptionError)(nil); errors.As(err, &wrong) {
			return err // it ends the whole replay: the templates do not fit
		}
		if err != nil {
			problem(i, err)
		}
	}
	return nil
}

func (r *reader) file(ctx context.Context, index int) error {
	name := r.opts.Files[index]
	if r.opts.Follow && index == len(r.opts.Files)-1 {
		f, err := newFollower(name, r.opts.Poll, r.opts.FromEnd)
		if err != nil {
			return err
		}
		defer f.close()
		return r.text(ctx, index, f, false, f)
	}

	var raw io.Reader
	slow := true
	if name == Stdin {
		raw = endingReader(ctx, r.opts.Stdin)
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if slow = !info.Mode().IsRegular(); slow {
			raw = endingReader(ctx, f) // a named pipe blocks as the standard input does
		} else {
			raw = f
		}
	}
	text, done, err := decompress(raw)
	if err != nil {
		return err
	}
	defer done()
	return r.text(ctx, index, text, slow, nil)
}

// text cuts what src has into chunks. It sends whole lines of a slow src as they come, not only when a chunk is full. f is for a src
// that is followed.
func (r *reader) text(ctx context.Context, index int, src io.Reader, slow bool, f *follower) error {
	c := cutter{skip: f != nil && f.inLine}
	for first := true; ; {
		if err := r.take(ctx); err != nil {
			return err
		}
		buf := r.spare.buf
		old := c.fill(buf)
		n, err := fill(src, buf, old, slow)
		cut := false
		if errors.Is(err, errIdle) {
			err = nil
			if bytes.IndexByte(buf[old:n], '\n') < 0 { // else send the new lines first
				cut, err = f.wait(ctx)
			}
		}
		// What came before an error counts, but for the line it left unfinished.
		text := c.cut(buf[:n], cut || errors.Is(err, io.EOF))
		if first && len(text) > 0 {
			text, first = bytes.TrimPrefix(text, []byte("\ufeff")), false
			if bad := r.prepare(text); bad != nil {
				return bad
			}
		}
		r.send(index, text)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads into buf from place n on, until it is full or src returns an error.
func fill(src io.Reader, buf []byte, n int, slow bool) (int, error) {
	for n < len(buf) {
		m, err := src.Read(buf[n:])
		n += m
		if err != nil {
			return n, err
		}
		if slow && bytes.IndexByte(buf[n-m:n], '\n') >= 0 {
			break
		}
	}
	return n, nil
}

// take makes sure that there is a spare chunk. It waits while the workers and the collector have all.
func (r *reader) take(ctx context.Context) error {
	if r.spare != nil {
		return ctx.Err()
	}
	select {
	case r.spare = <-r.free:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *reader) send(index int, text []byte) {
	if len(text) == 0 {
		return
	}
	c := r.spare
	r.spare = nil
	c.text, c.file, c.plan = text, index, r.plan
	c.newest = r.opts.Now().Add(r.opts.MaxAhead).Unix()
	r.order <- c
	r.work <- c
}

// prepare makes the plan from the first lines of the first file that has any. Later files must be of the same format.
func (r *reader) prepare(text []byte) error {
	format, reasons := r.opts.Format, ""
	if format == Auto {
		format, reasons = detect(text)
	}
	if r.plan == nil {
		if len(r.templates) == 0 && r.opts.DefaultKeys != nil {
			templates, err := parseTemplates(r.opts.DefaultKeys(format))
			if err != nil {
				return &OptionError{Field: "Keys", Message: err.Error()}
			}
			r.templates = templates
		}
		plan, err := &plan{format: format, templates: r.templates}, error(nil)
		if r.opts.Site != nil {
			err = plan.siteOf(r.opts.Site)
		} else {
			plan, err = newPlan(format, r.templates)
		}
		if err != nil {
			return &OptionError{Field: "Keys", Message: err.Error()}
		}
		if r.opts.Outcomes {
			plan.read(statusField)
		}
		plan.columns, plan.reasons = columnsOf(text), reasons
		plan.has = plan.fieldsOf(text)
		r.plan = plan
	}
	if format == W3C && !slices.Equal(r.plan.columns, columnsOf(text)) {
		return errors.New("its #Fields line names other columns than the file before: replay them apart")
	}
	if r.plan.format != format {
		return fmt.Errorf("it reads as %s, but the file before as %s: replay them apart, or force one with --format", format, r.plan.format)
	}
	return nil
}

// chunkBytes is the size of the pieces that a log is cut into. It fits a core's cache, and parsing takes far longer than handing
// over.
const chunkBytes = 1 << 20

// chunksPerWorker is the size of the pool: one chunk that is parsed, one that waits, and one that is read or collected.
const chunksPerWorker = 3

// sampleLines is how many malformed lines are shown, and sampleBytes how much of each.
const (
	sampleLines = 5
	sampleBytes = 160
)

// A chunk is whole lines of one file, and what a worker found in them. It goes from reader to worker, sender if there is a server,
// collector, and back to the reader.
type chunk struct {
	buf    []byte // chunkBytes, for text
	text   []byte // whole lines; the last may lack its line end
	file   int    // index of the file that text is from
	plan   *plan
	newest int64 // the latest second that is not from the future

	done chan struct{} // gets one value when the worker is done
	found
}

// found is what a worker found in a chunk.
type found struct {
	lines     int             // all line ends: gives the line numbers
	runs      []run           // good lines, in order
	malformed int             // lines
	sample    []MalformedLine // the first ones; their lines count from 1 in the chunk
	ahead     int             // lines whose time is in the future
	keyless   []uint64        // hits without a key, by template
	refused   uint64          // hits whose key cannot be one
	hits      []client.Hit    // that are sent to a server, sorted by time
	part      any             // that a LineWorker made
}

// A run is lines in a row that have the same second.
type run struct {
	at    int64 // Unix seconds
	lines int
	n     uint64 // hits
}

// reset empties what was found, and keeps the memory.
func (f *found) reset(templates int) {
	*f = found{
		runs:    f.runs[:0],
		sample:  f.sample[:0],
		keyless: append(f.keyless[:0], make([]uint64, templates)...),
		hits:    f.hits[:0],
	}
}

func (f *found) addRun(at int64, n uint64) {
	if last := len(f.runs) - 1; last >= 0 && f.runs[last].at == at {
		f.runs[last].lines++
		f.runs[last].n += n
		return
	}
	f.runs = append(f.runs, run{at: at, lines: 1, n: n})
}

func (f *found) addMalformed(text []byte, reason error) {
	f.malformed++
	if len(f.sample) < sampleLines {
		text = text[:min(len(text), sampleBytes)]
		f.sample = append(f.sample, MalformedLine{Line: f.lines + 1, Text: string(text), Reason: reason.Error()})
	}
}
