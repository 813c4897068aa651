package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress draws a bar with the rate and the time left; without a known total
// it draws the rate alone. add takes the bytes read, finish wipes the bar.
func progress(w io.Writer, total int64) (add func(bytes int), finish func()) {
	if total == 0 {
		total = -1
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetDescription("reading"),
		progressbar.OptionClearOnFinish(),
	)
	// A bar that cannot be drawn is not worth failing for.
	add = func(bytes int) { _ = bar.Add(bytes) }
	finish = func() {
		_ = bar.Clear()
		fmt.Fprint(w, "\r")
	}
	return add, finish
}
