package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/internal/distinct"
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
	if o.Site != nil {
		if len(o.Keys) > 0 {
			return nil, &OptionError{Field: "Site", Message: "a site has keys of its own: leave key templates out, or the site"}
		}
		o.Keys = o.Site.Keys
	}
	templates, err := parseTemplates(o.Keys)
	if err != nil {
		return nil, &OptionError{Field: "Keys", Message: err.Error()}
	}
	if len(templates) > 0 && o.Format != Auto && o.Site == nil {
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
		p.free <- &chunk{buf: make([]byte, chunkBytes), done: make(chan struct{}, 1)}
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
		w := worker{sink: p.newSink()}
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
		return &gatherSink{engine: p.engine, at: p.second, index: map[string]int{}, site: p.opts.Site, visitors: distinct.New(1)}
	}
	return &sendSink{index: map[hitKey]int{}}
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
	// line counts the hits of a line for each of its keys, if any. It must not keep them.
	line(l *line, keys [][]byte) error
	// flush is called after the last line of each chunk.
	flush(c *chunk)
	// close is called after the last chunk.
	close() error
}

// A worker parses chunks and counts the keys of their lines.
type worker struct {
	sink sink

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
			if len(bytes.TrimSpace(b)) > 0 && !errors.Is(err, errComment) {
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
	n := w.line.n
	w.text, w.ends = w.text[:0], w.ends[:0]
	if w.plan.site != nil {
		return w.countView()
	}
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
			w.text, w.ends = text, append(w.ends, len(text))
		}
	}
	w.keys = w.keys[:0]
	start := 0
	for _, end := range w.ends {
		w.keys = append(w.keys, w.text[start:end])
		start = end
	}
	if w.line.status = 0; len(w.plan.places[statusField]) > 0 {
		w.line.status, _ = parseUint(w.plan.field(&w.line, statusField))
	}
	return w.sink.line(&w.line, w.keys)
}

// countView counts the line under the keys of its page view, if it is one.
func (w *worker) countView() error {
	w.keys = w.keys[:0]
	for _, key := range w.plan.siteKeys(&w.line) {
		w.keys = append(w.keys, []byte(key))
	}
	return w.sink.line(&w.line, w.keys)
}

// gatherAtMost is how many different keys a worker gathers: a few MiB of them.
const gatherAtMost = 1 << 16

// gatherSink counts keys for the report, which lists the keys with the most hits of the whole log. So the time of a hit does not
// matter. A worker gathers the hits of a key, and the engine counts them in one second, within a budget for keys. This is exact for
// a log of any span, and takes half the processor time of counting each hit at its own second.
type gatherSink struct {
	engine *engine.Engine
	at     time.Time // the one second

	index    map[string]int // of a key in hits
	hits     []uint64
	site     *Site         // nil: it is no log of a site
	visitors *distinct.Set // of the site
}

func (s *gatherSink) line(l *line, keys [][]byte) error {
	for _, key := range keys {
		if err := s.add(key, l.n); err != nil {
			return err
		}
	}
	if l.visitor != 0 {
		s.visitors.Add(s.at.Unix(), l.visitor)
	}
	return nil
}

func (s *gatherSink) add(key []byte, n uint64) error {
	if i, ok := s.index[string(key)]; ok {
		s.hits[i] += n
		return nil
	}
	if len(s.hits) == gatherAtMost {
		if err := s.handOver(); err != nil {
			return err
		}
	}
	s.index[string(key)] = len(s.hits)
	s.hits = append(s.hits, n)
	return nil
}

// handOver gives what was gathered to the engine.
func (s *gatherSink) handOver() error {
	block, expected := make([]string, 0, handOverBlock), make([]engine.Expected, 0, handOverBlock)
	count := func() error {
		expected = s.engine.Keyspace().Expect(expected[:0], block)
		for _, key := range expected {
			if _, err := s.engine.HitExpected(s.at, key, s.hits[s.index[key.Key()]]); err != nil {
				return err
			}
		}
		block = block[:0]
		return nil
	}
	for key := range s.index {
		if block = append(block, key); len(block) == handOverBlock {
			if err := count(); err != nil {
				return err
			}
		}
	}
	if err := count(); err != nil {
		return err
	}
	clear(s.index)
	s.hits = s.hits[:0]
	return nil
}

// handOverBlock is how many keys the engine looks for together.
const handOverBlock = 64

func (*gatherSink) flush(*chunk) {}

func (s *gatherSink) close() error {
	err := s.handOver()
	if s.site != nil && s.visitors.Newest() >= 0 {
		err = errors.Join(err, s.engine.AddDistinct(s.site.Views, s.visitors))
	}
	return err
}

// sendSink collects what is sent to a server. Equal keys of the same second become one hit of n.
type sendSink struct {
	index map[hitKey]int // of a hit in hits
	hits  []client.Hit
}

type hitKey struct {
	at  int64
	key string
}

func (s *sendSink) line(l *line, keys [][]byte) error {
	for _, key := range keys {
		if i, ok := s.index[hitKey{l.at, string(key)}]; ok {
			s.hits[i].N += l.n
			continue
		}
		h := client.Hit{Key: string(key), N: l.n, At: time.Unix(l.at, 0)}
		s.index[hitKey{l.at, h.Key}] = len(s.hits)
		s.hits = append(s.hits, h)
	}
	return nil
}

// flush gives c its hits for the sender, sorted by time: what is sorted in the log arrives sorted.
func (s *sendSink) flush(c *chunk) {
	s.hits, c.hits = c.hits[:0], s.hits
	clear(s.index)
	slices.SortStableFunc(c.hits, func(a, b client.Hit) int { return a.At.Compare(b.At) })
}

// close has nothing left: every chunk took its own.
func (*sendSink) close() error { return nil }

// A sender sends the hits of the chunks to a server, in the order of the log and one batch at a time, so that a sorted log arrives
// sorted. Late hits cost the server more than what several requests at once would save here.
type sender struct {
	client  *client.Client
	once    bool           // the same hits at the same place in the log count once
	sent    int            // hits so far
	receipt client.Receipt // so far; read it after run
	chunks  chan *chunk    // those that are sent, in the order of the log
}

// newSender returns a sender for a pool of so many chunks. Only regular files are cut at the same places each time.
func newSender(o *Options, pool int) *sender {
	size, err := TotalSize(o.Files)
	return &sender{client: o.To, once: !o.Again && !o.Follow && err == nil && size > 0, receipt: client.Receipt{Reasons: []api.RejectedLine{}}, chunks: make(chan *chunk, pool)}
}

// run takes chunks in the order of the log, waits until each is parsed, sends its hits and passes it on. After an error of the
// sender or of a worker, it passes them on unsent.
func (s *sender) run(ctx context.Context, order <-chan *chunk, fail func(error)) {
	defer close(s.chunks)
	for c := range order {
		<-c.done
		if ctx.Err() == nil && len(c.hits) > 0 {
			if err := s.send(ctx, c.hits); err != nil {
				fail(err)
			}
		}
		c.done <- struct{}{}
		s.chunks <- c
	}
}

// send takes it for an answer, and not for a failure, that the server counted none of a batch: the receipt says why.
func (s *sender) send(ctx context.Context, hits []client.Hit) error {
	var receipt client.Receipt
	var err error
	if s.once {
		receipt, err = s.client.SendOnce(ctx, "replay "+strconv.Itoa(s.sent), hits)
	} else {
		receipt, err = s.client.Send(ctx, hits)
	}
	s.sent += len(hits)
	s.receipt.Add(receipt)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.NothingCounted() {
		return nil
	}
	return err
}

// endingReader returns a reader of r whose Read ends with ctx. A Read of the standard input can't be interrupted: the goroutine in it
// is left behind.
func endingReader(ctx context.Context, r io.Reader) io.Reader {
	from, to := io.Pipe()
	context.AfterFunc(ctx, func() { from.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.CopyBuffer(to, struct{ io.Reader }{r}, make([]byte, pipeBytes)) // not by a WriteTo of r, which has a smaller buffer
		to.CloseWithError(err)
	}()
	return from
}

const pipeBytes = 128 << 10
