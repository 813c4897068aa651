package traffic

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSparseHits(t *testing.T) {
	const keys = 1_000
	seconds, last := make([][]int64, keys), int64(0)
	for hit := range SparseHits {
		for j := range keys {
			key, second := SparseHit(keys, hit, j)
			if second < last || second >= Day {
				t.Fatalf("hit %d, place %d: second %d after %d", hit, j, second, last)
			}
			last = second
			seconds[key] = append(seconds[key], second)
		}
	}
	for key, at := range seconds {
		if at = slices.Compact(at); len(at) != SparseHits {
			t.Errorf("key %d has hits in %d seconds, want %d", key, len(at), SparseHits)
		}
	}
}

func TestSparseKey(t *testing.T) {
	for i, want := range map[int]string{0: "user:000000000000000", 9_999_999: "user:000000009999999"} {
		if got := string(AppendSparseKey(nil, i)); got != want || len(got) != SparseKeyBytes {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
}

func TestKeysAndPicks(t *testing.T) {
	keys, picks := Keys(1_000), Picks(10_000, 1_000)
	if sorted := slices.Compact(slices.Sorted(slices.Values(keys))); len(sorted) != 1_000 {
		t.Errorf("%d different keys", len(sorted))
	}
	counts := make([]int, len(keys))
	for _, pick := range picks {
		counts[pick]++
	}
	if counts[0] < counts[1] || counts[1] < counts[10] || counts[10] < counts[500] {
		t.Errorf("not Zipf's law: %v", counts[:20])
	}
}

func TestGenerated(t *testing.T) {
	trace := Generated(2)
	if trace.Start%Day != 0 || len(trace.Counts) != 2*Day {
		t.Errorf("start %d, %d seconds", trace.Start, len(trace.Counts))
	}
	if !slices.Equal(trace.Counts, Generated(2).Counts) {
		t.Error("not the same again")
	}
	if slices.Max(trace.Counts) < 20 {
		t.Error("no burst")
	}
}

func TestWriteLog(t *testing.T) {
	var first, again strings.Builder
	if err := errors.Join(WriteLog(&first, 1_000), WriteLog(&again, 1_000)); err != nil {
		t.Fatal(err)
	}
	if first.String() != again.String() {
		t.Error("not the same again")
	}
	combined := regexp.MustCompile(`^10\.\d+\.\d+\.\d+ - - \[15/Jan/2026:\d\d:\d\d:\d\d \+0000\] "GET /section-\d+/page-\d{4}\.html HTTP/1\.1" \d{3} \d+ "https://[^" ]+" "[^"]+"$`)
	lines := strings.Split(strings.TrimSuffix(first.String(), "\n"), "\n")
	if len(lines) != 1_000 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		if !combined.MatchString(line) {
			t.Fatalf("not the combined format: %s", line)
		}
	}
	if !strings.Contains(lines[999], "[15/Jan/2026:23:5") {
		t.Errorf("the day does not end: %s", lines[999])
	}
}
