package auth

import (
	"context"

	"github.com/weir-counter/weir/internal/filewatch"
)

// Watch keeps the Set in use that of the file at path until ctx ends: it looks once a
// second whether the file has other content, and at once for each value from reload, which
// may be nil. report is called from Watch's goroutine: with nil when the file's identities
// are in use after a change, or after a reload that was asked for; else with what is wrong
// with the file, while those in use stay. That is told once for each content, and again when
// a reload is asked for.
func (l *Live) Watch(ctx context.Context, path string, reload <-chan struct{}, report func(error)) {
	file := filewatch.File{
		Path: path, What: "tokens", Gone: "put it back, and revoke tokens with 'weir token revoke'",
		Read: readFile, InUse: func() filewatch.Hash { return l.Set().content }, Take: l.use, Report: report,
	}
	file.Watch(ctx, reload)
}

func (l *Live) use(path string, data []byte) error {
	set, err := Parse(path, data)
	if err == nil {
		l.Use(set)
	}
	return err
}
