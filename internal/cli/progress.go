package cli

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/weir-counter/weir/internal/units"
)

// This part draws on a terminal how far a long read is.
//
// Invariant: what takes less than a second draws nothing; what was drawn is wiped at the end, so that it
// never stands among a command's output.

const (
	// drawAfter is when the first line is drawn: what takes less needs none, and a rate over less is not worth reading.
	drawAfter   = time.Second
	redrawEvery = 100 * time.Millisecond
)

// line is one of a terminal that says how far a long read is.
type line struct {
	w     io.Writer
	total int64 // bytes; 0: not known
	now   func() time.Time

	mu           sync.Mutex
	began, drawn time.Time
	read         int64
}

// NewProgress draws how much was read, the rate and the time left; without a known total the
// amount and the rate alone. add takes the bytes read, finish wipes the line.
func NewProgress(w io.Writer, total int64) (add func(bytes int), finish func()) {
	p := &line{w: w, total: total, now: time.Now, began: time.Now()}
	return p.add, p.finish
}

func (p *line) add(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += int64(bytes)
	now := p.now()
	if now.Sub(p.began) < drawAfter || now.Sub(p.drawn) < redrawEvery {
		return
	}
	p.drawn = now
	fmt.Fprint(p.w, "\r\x1b[K"+p.text(now.Sub(p.began)))
}

func (p *line) text(took time.Duration) string {
	rate := float64(p.read) / took.Seconds()
	text := "reading: " + units.FormatSize(p.read)
	if p.total > 0 {
		text += fmt.Sprintf(" of %s (%d %%)", units.FormatSize(p.total), min(100, p.read*100/p.total))
	}
	text += ", " + units.FormatSize(int64(rate)) + "/s"
	if left := p.total - p.read; left > 0 && rate >= 1 {
		text += fmt.Sprintf(", %s left", units.FormatDuration(time.Duration(math.Ceil(float64(left)/rate))*time.Second))
	}
	return text
}

func (p *line) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.drawn.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
