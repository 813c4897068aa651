package wire

import (
	"bytes"
	"errors"
	"testing"
)

func TestFrame(t *testing.T) {
	before := []byte("before")
	sealed := Seal(append(bytes.Clone(before), "M\x03content"...), len(before))[len(before):]
	version, content, err := Open(sealed, 'M')
	if err != nil || version != 3 || string(content.Rest()) != "content" {
		t.Fatalf("version %d, %q, %v", version, content.Rest(), err)
	}
	if _, _, err := Open(sealed, 'N'); !errors.Is(err, ErrOther) {
		t.Errorf("another frame: %v", err)
	}
	for cut := range len(sealed) {
		if _, _, err := Open(sealed[:cut], 'M'); err == nil {
			t.Errorf("a frame cut to %d bytes is read", cut)
		}
	}
	for bit := range 8 * len(sealed) {
		flipped := bytes.Clone(sealed)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := Open(flipped, 'M'); err == nil {
			t.Errorf("a frame with bit %d flipped is read", bit)
		}
	}
}

func TestSumOfParts(t *testing.T) {
	if whole, parts := Sum([]byte("123456789")), AddSum(Sum([]byte("1234")), []byte("56789")); whole != parts || whole != 0xe3069283 {
		t.Errorf("%08x, and in parts %08x", whole, parts)
	}
}

func TestShortest(t *testing.T) {
	for text, want := range map[string]uint64{"\x00": 0, "\x7f": 127, "\x80\x01": 128} {
		if r := NewReader([]byte(text)); r.Shortest(128) != want || !r.Done() {
			t.Errorf("%q is not read as %d", text, want)
		}
	}
	for _, text := range []string{"", "\x80", "\x80\x00", "\x81\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if r := NewReader([]byte(text)); r.Shortest(128) != 0 || !r.Failed() {
			t.Errorf("%q is read", text)
		}
	}
}

func TestBlock(t *testing.T) {
	b := AppendBlock(nil, []byte("block"))
	if r := NewReader(b); string(r.Block()) != "block" || !r.Done() {
		t.Error("a block is not read as it was written")
	}
	if r := NewReader(b[:len(b)-1]); r.Block() != nil || !r.Failed() {
		t.Error("a block that is cut is read")
	}
}
