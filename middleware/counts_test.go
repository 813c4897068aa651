package middleware

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who has no OnError gets a warning, and not one for each request.
func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		var w warner
		for range 1000 {
			w.warn(request(), errors.New("away"))
		}
		time.Sleep(warnEvery)
		w.warn(request(), errors.New("still away"))
		time.Sleep(warnEvery)
		w.warn(request(), ErrMisconfigured)
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], "level=ERROR msg=\"weir: requests are refused") || !strings.Contains(lines[0], "error=away more_since_the_last_warning=0") || !strings.Contains(lines[1], `error="still away" more_since_the_last_warning=999`) {
		t.Errorf("%s", log.String())
	}
}
