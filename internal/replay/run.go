package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/engine"
)

// sendGrace is how long batches under way may still take when the context ends.
const sendGrace = 5 * time.Second

// Run reads the files of o and reports what was in them.
//
// If a file can't be read to its end, Run goes on with the others; if the context ends, it stops reading. Both ways it returns the
// report of what was read together with the error. A followed file ends with the context, without an error. An *OptionError comes
// without a report.
func Run(ctx context.Context, o Options) (*Report, error) {
	o = o.withDefaults()
	templates, err := o.prepare()
	if err != nil {
		return nil, err
	}
	var e *engine.Engine
	if o.To == nil {
		e, err = engine.New(engine.Config{
			Memory: o.Memory, Clock: engine.EventClock, Now: o.Now,
		})
		if err != nil {
			return nil, err
		}
		defer e.Close()
	}
	return newPipeline(&o, templates, e).finish(ctx)
}

// prepare checks the options, and reads the templates.
func (o Options) prepare() ([]template, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := o.plainToFollow(); err != nil {
		return nil, err
	}
	templates, err := parseTemplates(o.Keys)
	if err != nil {
		return nil, &OptionError{Field: "Keys", Message: err.Error()}
	}
	if len(templates) > 0 && o.Format != Auto {
		if _, err := newPlan(o.Format, templates); err != nil {
			return nil, &OptionError{Field: "Keys", Message: err.Error()}
		}
	}
	return templates, nil
}

// finish runs the pipeline and reports.
func (p *pipeline) finish(ctx context.Context) (*Report, error) {
	runErr := p.run(ctx)
	if wrong := (*OptionError)(nil); errors.As(runErr, &wrong) {
		return nil, wrong // found by the first lines: nothing was counted
	}
	report, err := p.report()
	return report, errors.Join(runErr, err)
}

// A pipeline is one replay while it runs.
type pipeline struct {
	opts   *Options
	engine *engine.Engine // nil for Scan, and when the hits are sent to a server
	second time.Time      // the second in which engine counts everything
	reader *reader
	free   chan *chunk
	work   chan *chunk
	order  chan *chunk
	sent   *sender // nil without a server
	collector

	mu       sync.Mutex
	problems []error // by file; nil is none
	stopped  error   // why the replay did not come to its end
}

func newPipeline(o *Options, templates []template, e *engine.Engine) *pipeline {
	pool := o.Workers * chunksPerWorker
	p := &pipeline{
		opts:     o,
		engine:   e,
		second:   o.Now().Truncate(time.Second),
		free:     make(chan *chunk, pool),
		work:     make(chan *chunk, pool),
		order:    make(chan *chunk, pool),
		problems: make([]error, len(o.Files)),
	}
	for range pool {
		p.free <- newChunk()
	}
	p.reader = &reader{opts: o, templates: templates, free: p.free, work: p.work, order: p.order}
	if o.To != nil {
		p.sent = newSender(o, pool)
	}
	p.collector.begin(o)
	return p
}

// run ends when the reader, the workers and the collector are done.
func (p *pipeline) run(ctx context.Context) error {
	// failed ends with ctx, or at the first error that ends the replay.
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// sending outlives ctx by sendGrace, but no failure.
	sending, stopSending := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopSending(nil)
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(sendGrace, func() { stopSending(ctx.Err()) })
		context.AfterFunc(sending, func() { timer.Stop() })
	})()
	abort := func(err error) {
		fail(err)
		stopSending(err)
	}

	var workers sync.WaitGroup
	for range p.opts.Workers {
		w := worker{sink: p.newSink(), countKeys: p.countKeys}
		workers.Go(func() { w.run(sending, p.work, abort) })
	}
	workers.Go(func() {
		if err := p.reader.run(failed, p.problem); err != nil {
			fail(err)
		}
	})
	collected := p.order
	if p.sent != nil {
		collected = p.sent.chunks
		workers.Go(func() { p.sent.run(sending, p.order, abort) })
	}
	if err := p.collect(collected, p.free); err != nil {
		abort(err)
		for c := range collected { // the reader stops because the context has ended
			<-c.done
		}
	}
	workers.Wait()

	err := context.Cause(failed)
	if p.opts.Follow && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // that is how a followed file ends
	}
	p.stopped = err
	return errors.Join(append(p.named(), err)...)
}

func (p *pipeline) newSink() sink {
	switch {
	case p.lines != nil:
		return &lineSink{p.lines.NewWorker()}
	case p.engine != nil:
		return newGatherSink(p.engine, p.second)
	}
	return newSendSink()
}

func (p *pipeline) problem(file int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems[file] = err
}

// named returns the problems with the names of their files.
func (p *pipeline) named() []error {
	var errs []error
	for i, err := range p.problems {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.opts.Files[i], err))
		}
	}
	return errs
}

// A sink takes the keys' hits from one worker.
type sink interface {
	// line counts n hits of each of the line's keys, if any. It must not keep them.
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

// run works until there are no more chunks. After an error of any worker, chunks are passed on unread: the collector waits for each.
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
