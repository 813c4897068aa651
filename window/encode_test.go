package window

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-counter/weir/internal/wire"
)

func sampleWindows() map[string]Window {
	windows := map[string]Window{"empty": {}}
	for name := range patterns {
		for _, retention := range []int64{600, MaxSeconds} {
			w, _ := New(retention)
			for _, at := range times(name, rand.New(rand.NewPCG(5, 5))) {
				w.Add(at, 3)
			}
			windows[name] = w
		}
	}
	return windows
}

func TestEncodeDecode(t *testing.T) {
	for name, w := range sampleWindows() {
		encoded := encode(t, &w)
		var back Window
		if err := back.UnmarshalBinary(encoded); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !slices.Equal(encode(t, &back), encoded) {
			t.Errorf("%s: decoded to another window", name)
		}
		back.Add(back.newest()+1000, 1) // it must go on as the original does
		w.Add(w.newest()+1000, 1)
		if !slices.Equal(encode(t, &back), encode(t, &w)) {
			t.Errorf("%s: the decoded window went on otherwise", name)
		}
	}
}

// Every flipped bit and every cut is refused, and leaves the window alone.
func TestDecodeRefusesDamage(t *testing.T) {
	for name, w := range sampleWindows() {
		encoded := encode(t, &w)
		var target Window
		target.Add(77, 7)
		refuse := func(data []byte, what string, at int) {
			err := target.UnmarshalBinary(data)
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
				t.Fatalf("%s: %s %d: %v", name, what, at, err)
			}
			if target.Total() != 7 {
				t.Fatalf("%s: %s %d changed the window", name, what, at)
			}
		}
		for bit := range 8 * len(encoded) {
			flipped := slices.Clone(encoded)
			flipped[bit/8] ^= 1 << (bit % 8)
			refuse(flipped, "flipped bit", bit)
		}
		for cut := range len(encoded) {
			refuse(encoded[:cut], "cut to", cut)
		}
		refuse(append(slices.Clone(encoded), 0), "a byte more than", len(encoded))
	}
}

// FuzzDecode repairs the checksum, so that the checks behind it are reached:
// what the decoder takes must encode to the same bytes and answer sanely.
func FuzzDecode(f *testing.F) {
	for _, w := range sampleWindows() {
		b, _ := w.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w Window
		if err := w.UnmarshalBinary(data); err == nil && !slices.Equal(encode(t, &w), data) {
			t.Fatal("a window with two encodings")
		}
		data = wire.Seal(slices.Clone(data), 0)
		if err := w.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		if !slices.Equal(encode(t, &w), data) {
			t.Fatal("a window with two encodings")
		}
		newest, _ := w.Newest()
		w.Add(newest+5, 1)
		w.Add(newest-5, 1)
		for seconds := int64(1); seconds <= MaxSeconds; seconds *= 3 {
			if c := w.Count(newest+5, seconds); c.Lower > c.Estimate || c.Estimate > c.Upper {
				t.Fatalf("Count = %+v", c)
			}
		}
	})
}
