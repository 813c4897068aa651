package httpapi

import (
	"testing"
	"time"
)

// A byte now and then does not keep a body alive, whatever its length; a steady one has all
// the time that it needs.
func TestPace(t *testing.T) {
	p := MinRate{10 * time.Second, 64 << 10}
	for range 256 { // 16 MiB at the least rate, with a stop of 9 s
		p.moved(64<<10, time.Second)
	}
	if p.moved(1, 9*time.Second); p.Left <= 0 {
		t.Errorf("a steady one has %v left", p.Left)
	}
	p, seconds := MinRate{10 * time.Second, 64 << 10}, 0
	for ; p.Left > 0; seconds++ {
		p.moved(1, time.Second)
	}
	if seconds != 11 {
		t.Errorf("a byte a second lasts %d s", seconds)
	}
}
