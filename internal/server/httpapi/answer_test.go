package httpapi

import (
	"testing"
	"time"
)

func TestAppendSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "0.001", time.Second: "1", 1500 * time.Millisecond: "1.5", 1234567 * time.Microsecond: "1.235", 100 * 366 * 24 * time.Hour: "3162240000"} {
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
