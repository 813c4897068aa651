package pattern

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
)

// smallest is Find by looking at all ranges.
func smallest(list []netip.Prefix, a netip.Addr, bits int) int32 {
	best := int32(-1)
	for i, p := range list {
		if p.Contains(a) && p.Bits() <= bits && (best < 0 || p.Bits() > list[best].Bits()) {
			best = int32(i)
		}
	}
	return best
}

func TestRangesModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		address := func() netip.Addr { // few, so that ranges are nested and adjoin
			switch r.IntN(4) {
			case 0, 1:
				return netip.AddrFrom4([4]byte{byte(r.IntN(2) * 255), byte(r.IntN(2) * 255), byte(r.IntN(3)), byte(r.IntN(256))})
			case 2:
				var b [16]byte
				b[0], b[7], b[8], b[15] = byte(r.IntN(2)*255), byte(r.IntN(3)), byte(r.IntN(3)*127), byte(r.IntN(256))
				return netip.AddrFrom16(b)
			}
			b := netip.MustParseAddr("::fffe:ffff:ffff").As16() // next to those of IPv4
			b[11] += byte(r.IntN(2))
			b[9] += byte(r.IntN(2))
			return netip.AddrFrom16(b).Unmap()
		}
		var list []netip.Prefix
		seen := map[netip.Prefix]bool{}
		for range r.IntN(60) {
			a := address()
			bits := a.BitLen() - r.IntN(1+r.IntN(1+a.BitLen()))
			p := netip.PrefixFrom(a, bits).Masked()
			if !seen[p] {
				seen[p] = true
				list = append(list, p)
			}
		}
		for _, p := range []string{"::/0", "0.0.0.0/0", "::fffe:0:0/95"} {
			if p := netip.MustParsePrefix(p); r.IntN(3) == 0 && !seen[p] {
				list = append(list, p)
			}
		}
		table := NewRanges(list)
		for range 500 {
			a := address()
			bits := a.BitLen()
			if r.IntN(3) == 0 {
				bits = r.IntN(bits + 1)
				a = netip.PrefixFrom(a, bits).Masked().Addr()
			}
			if got, want := table.Find(a, bits), smallest(list, a, bits); got != want {
				t.Fatalf("seed %d: %v/%d is in %d of %v, want %d", seed, a, bits, got, list, want)
			}
		}
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7":               "192.0.2.7/32",
		"192.0.2.7:8080":          "192.0.2.7/32",
		"192.0.2.0/24":            "192.0.2.0/24",
		"::ffff:192.0.2.7":        "192.0.2.7/32",
		"[::ffff:192.0.2.7]:80":   "192.0.2.7/32",
		"::ffff:c000:207":         "192.0.2.7/32",
		"::ffff:192.0.2.0/120":    "192.0.2.0/24",
		"2001:db8::1":             "2001:db8::1/128",
		"2001:DB8:0:0::1":         "2001:db8::1/128",
		"[2001:db8::1]":           "2001:db8::1/128",
		"[2001:db8::1]:443":       "2001:db8::1/128",
		"[fe80::1%eth0]:443":      "fe80::1/128",
		"fe80::1%eth0":            "fe80::1/128",
		"2001:db8:1:2::/64":       "2001:db8:1:2::/64",
		"::":                      "::/128",
		"":                        "",
		"-":                       "",
		"bob":                     "",
		"192.0.2.07":              "",
		"192.0.2":                 "",
		"192.0.2.7%eth0":          "",
		"192.0.2.7/33":            "",
		"192.0.2.7/-1":            "",
		"192.0.2.7/":              "",
		"[192.0.2.7":              "",
		"[2001:db8::1]x":          "",
		"2001:db8::1]":            "",
		"2001:db8::1:443:1:1:1:1": "",
		"unix:/run/x":             "",
	} {
		a, bits, ok := ParseAddress(text)
		got := ""
		if ok {
			got = fmt.Sprintf("%v/%d", a, bits)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// processor is how much time of processors the test has used, in ns: also of a busy machine.
func processor() int64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

// What a look-up costs among 100,000 ranges, half of them of IPv6, nested in others.
func BenchmarkRanges(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for len(list) < 100_000 {
		var six [16]byte
		for i := range six {
			six[i] = byte(r.Uint32())
		}
		p := netip.PrefixFrom(netip.AddrFrom16(six), 16+r.IntN(113)).Masked()
		if len(list)%2 == 0 {
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte(six[:4])), 8+r.IntN(25)).Masked()
		}
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	table := NewRanges(list)
	var texts []string
	for i := range 4096 {
		texts = append(texts, list[i*20].Addr().String())
	}
	b.ReportAllocs()
	before := processor()
	i := 0
	for ; b.Loop(); i++ {
		a, bits, _ := ParseAddress(texts[i%len(texts)])
		table.Find(a, bits)
	}
	b.ReportMetric(float64(processor()-before)/float64(i), "cpu-ns/op")
}
