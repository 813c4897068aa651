package window

import (
	"encoding/binary"
	"testing"
)

// FuzzWindow reads steps of ten bytes: a kind, a time difference and a number,
// and holds the window against the naive model.
func FuzzWindow(f *testing.F) {
	f.Add(uint32(600), []byte("0123456789abcdefghij0123456789"))
	f.Add(uint32(0), []byte{0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 3, 255, 255, 255, 0, 1, 0, 0, 0, 0})
	f.Add(uint32(86400), make([]byte, 4000))
	f.Fuzz(func(t *testing.T, retention uint32, steps []byte) {
		if len(steps) > 5_000 {
			return // the naive model is quadratic
		}
		tw := newTwin(t, 1+int64(retention)%MaxSeconds)
		now := int64(0)
		for ; len(steps) >= 10; steps = steps[10:] {
			kind, x, y := steps[0], int64(binary.LittleEndian.Uint32(steps[1:])), uint64(binary.LittleEndian.Uint32(steps[5:]))
			switch kind % 8 {
			case 0, 1: // a little later
				now += x % 4
				tw.add(min(now, MaxTime), y%5)
			case 2: // a run of seconds, to make it dense
				for range x % 64 {
					now++
					tw.add(min(now, MaxTime), 1)
				}
			case 3: // a jump ahead
				now = min(now+x%(1<<(8+y%20)), MaxTime)
				tw.add(now, 1+y)
			case 4: // late
				tw.add(now-x%(1<<(1+y%28)), 1+y%7)
			case 5:
				tw.check(now, 1+x%MaxSeconds)
			case 6:
				tw.check(now-x%(1<<(1+y%28)), 1+int64(y)%MaxSeconds)
			case 7: // through the encoding
				var back Window
				if err := back.UnmarshalBinary(encode(t, &tw.w)); err != nil {
					t.Fatal(err)
				}
				tw.w = back
			}
		}
		for seconds := int64(1); seconds <= MaxSeconds; seconds = seconds*2 + 1 {
			tw.check(now, seconds)
		}
	})
}
