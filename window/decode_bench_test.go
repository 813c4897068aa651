package window

import "testing"

func BenchmarkUnmarshal(b *testing.B) {
	for name, n := range map[string]int64{"pairs": 20, "pyramid": 20_000} {
		var w Window
		for i := range n {
			w.Add(1_700_000_000+i, uint64(1+i%3))
		}
		data, _ := w.MarshalBinary()
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var got Window
				if err := got.UnmarshalBinary(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
