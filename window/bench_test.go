package window

import "testing"

func benchmarkWindow(keep int64) Window {
	w, _ := New(MaxSeconds)
	for i := range keep {
		w.Add(1_700_000_000+i, 1)
	}
	return w
}

func BenchmarkAddInOrder(b *testing.B) {
	w := benchmarkWindow(10_000)
	at := int64(1_700_010_000)
	for i := 0; b.Loop(); i++ {
		w.Add(at+int64(i>>4), 1)
	}
}

func BenchmarkAddNextSecond(b *testing.B) {
	w := benchmarkWindow(10_000)
	at := int64(1_700_010_000)
	for i := 0; b.Loop(); i++ {
		w.Add(at+int64(i), 1)
	}
}

func BenchmarkAddMinuteLate(b *testing.B) {
	w := benchmarkWindow(10_000)
	for i := 0; b.Loop(); i++ {
		w.Add(1_700_009_999-int64(i%60), 1)
	}
}

func BenchmarkAddWeekLate(b *testing.B) {
	w := benchmarkWindow(2 * 7 * day)
	newest, _ := w.Newest()
	for i := 0; b.Loop(); i++ {
		w.Add(newest-7*day-int64(i%day), 1)
	}
}

func BenchmarkCount(b *testing.B) {
	forms := map[string]Window{"pairs": benchmarkWindow(150), "pyramid": benchmarkWindow(7 * day)}
	for form, w := range forms {
		newest, _ := w.Newest()
		for name, seconds := range map[string]int64{"300s": 300, "week": 7 * day, "1e9s": MaxSeconds} {
			b.Run(form+"/"+name, func(b *testing.B) {
				for b.Loop() {
					w.Count(newest, seconds)
				}
			})
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	forms := map[string]Window{"pairs": benchmarkWindow(20), "pyramid": benchmarkWindow(20_000)}
	for form, w := range forms {
		data, _ := w.MarshalBinary()
		b.Run(form, func(b *testing.B) {
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
