package units

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
	}{
		{"90s", 90 * time.Second},
		{"5m", 5 * time.Minute},
		{"24h", 24 * time.Hour},
		{"7d", 7 * 24 * time.Hour},
		{"1w", 7 * 24 * time.Hour},
		{"10y", 3650 * 24 * time.Hour},
		{"1h30m", 90 * time.Minute},
		{"1w2d3h4m5s6ms", (9*24+3)*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond},
		{"1.5h", 90 * time.Minute},
		{"0.1w", 60480 * time.Second},
		{"300", 300 * time.Second},
		{"0.5", 500 * time.Millisecond},
		{"0", 0},
		{"1000000000", 1_000_000_000 * time.Second},
		{"9223372036.854775807s", 1<<63 - 1},
		{"0.33333333333333333333333w", 201_600*time.Second - 1},
	} {
		got, err := ParseDuration(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"", "s", "-5m", "+5m", "5x", "5 m", "30m1h", "5m5m", "1.m", ".5s", "1..5s", "5m3", "5M",
		"9223372036.854775808s", "99999999999999999999", "15251w", "5m ", "1e3", "0x10", "∞"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		} else if !strings.Contains(err.Error(), "write 90s") {
			t.Errorf("ParseDuration(%q): the error %q does not say what to write", in, err)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0s", -time.Second: "0s", time.Second: "1s", 90 * time.Second: "1m30s",
		90 * time.Minute: "1h30m", 7 * day: "1w", 10 * day: "10d", 30 * day: "30d", 14 * day: "2w",
		1500 * time.Millisecond: "1s500ms",
	} {
		if got := FormatDuration(in); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", in, got, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"90s", "1h30m", "0.25", "1w", "99999999w"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("ParseDuration(%q) = %v: negative", s, d)
		}
		d = d.Truncate(time.Millisecond)
		again, err := ParseDuration(FormatDuration(d))
		if err != nil || again != d {
			t.Fatalf("%q: %v is written %q and read back as %v, %v", s, d, FormatDuration(d), again, err)
		}
	})
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Time
	}{
		{"0", time.Unix(0, 0)},
		{"807249600", time.Unix(807249600, 0)},
		{"1700158622.979", time.Unix(1700158622, 979_000_000)},
		{"1700158622.1234567891", time.Unix(1700158622, 123_456_789)},
		{"1.7001586225E9", time.Unix(1700158622, 500_000_000)},
		{"1995-08-01T00:00:00-04:00", time.Unix(807249600, 0)},
		{"2023-11-16T18:17:02.979Z", time.Unix(1700158622, 979_000_000)},
	} {
		got, err := ParseTime(c.in)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("ParseTime(%q) = %v, %v, want %v", c.in, got, err, c.want)
		}
	}
	for in, hint := range map[string]string{
		"": "RFC 3339", "now": "RFC 3339", "-1": "RFC 3339", "1.": "RFC 3339", "1700158622979": "divide milliseconds",
		"1.7e12": "RFC 3339", "1e999": "RFC 3339", "2023-11-16": "RFC 3339", "2023-11-16 18:17:02": "RFC 3339",
		"1969-12-31T23:59:59Z": "RFC 3339", "NaN": "RFC 3339", "99999999999999999999": "RFC 3339", "nane": "RFC 3339",
	} {
		if got, err := ParseTime(in); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("ParseTime(%q) = %v, %v, want an error with %q", in, got, err, hint)
		}
	}
}

func TestFormatUnix(t *testing.T) {
	for want, in := range map[string]time.Time{
		"0": time.Unix(0, 0), "1700158622": time.Unix(1700158622, 0), "1700158622.05": time.Unix(1700158622, 50_000_000),
		"0.000000001": time.Unix(0, 1), "-0.5": time.Unix(-1, 500_000_000), "-1.25": time.Unix(-2, 750_000_000),
	} {
		if got := FormatUnix(in); got != want {
			t.Errorf("FormatUnix(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1024": 1024, "512MiB": 512 << 20, "2GiB": 2 << 30, "1GB": 1e9, "1.5GB": 15e8, "1 kib": 1024,
		"7b": 7, "1tib": 1 << 40, "0.5KiB": 512,
	} {
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "1.5", "1K", "5 MiBs", "9223372036854775808", "8388608TiB", "1  GB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for in, want := range map[int64]string{0: "0B", 900: "900B", 512 << 20: "512MiB", 3 << 29: "1.5GiB", 1 << 50: "1024TiB"} {
		if got := FormatSize(in); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", in, got, want)
		}
	}
}
