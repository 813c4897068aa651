package admit

import (
	"context"

	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/policy"
)

// Watch keeps the Set in use that of the file at path until ctx ends: it looks once a
// second whether the file has other content, and at once for each value from reload, which
// may be nil. A file that is replaced by renaming another one over it is followed.
//
// report is called from Watch's goroutine: with nil when the file's policies are in use
// after a change, or after a reload that was asked for; else with what is wrong with the
// file, while the policies in use stay. That is told once for each content of the file,
// and again when a reload is asked for.
func (l *Live) Watch(ctx context.Context, path string, reload <-chan struct{}, report func(error)) {
	file := filewatch.File{
		Path: path, What: "policies", Gone: "put it back, or write `limits: []` for none",
		Read: policy.ReadFile, InUse: func() filewatch.Hash { return l.Set().Content() }, Take: l.take, Report: report,
	}
	file.Watch(ctx, reload)
}

func (l *Live) take(path string, data []byte) error {
	set, err := policy.Parse(path, data)
	if err != nil {
		return err
	}
	return l.Replace(set)
}
