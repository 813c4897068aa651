package wire

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

func TestReaderReadsWhatWasAppended(t *testing.T) {
	b := AppendText(nil, "text")
	b = AppendBool(b, true)
	b = binary.AppendVarint(b, -7)
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = append(b, 2, 'x', 'y')
	for cut := range len(b) + 1 {
		r := NewReader(b[:cut])
		text, is, signed, unsigned := r.Text(4), r.Bool(), r.Varint(), r.Uvarint()
		last := string(r.Bytes(r.Count()))
		if whole := cut == len(b); r.Done() != whole || r.Failed() == whole {
			t.Fatalf("%d of %d bytes: done %v, failed %v", cut, len(b), r.Done(), r.Failed())
		}
		if cut == len(b) && (text != "text" || !is || signed != -7 || unsigned != math.MaxUint64 || last != "xy") {
			t.Errorf("%q, %v, %d, %d, %q", text, is, signed, unsigned, last)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, read := range map[string]func(r *Reader){
		"a text that is too long":    func(r *Reader) { r.Text(2) },
		"a number that is too large": func(r *Reader) { r.AtMost(2) },
		"more things than bytes":     func(r *Reader) { r.Bytes(2); r.Bytes(2); r.Count() },
		"a bool of 3":                func(r *Reader) { r.Bool() },
		"a negative length":          func(r *Reader) { r.Bytes(-1) },
		"what was said to be":        (*Reader).Fail,
	} {
		r := NewReader([]byte("\x03abc\x05x"))
		read(r)
		if !r.Failed() || r.Done() || r.Byte() != 0 || r.Uvarint() != 0 || r.Varint() != 0 || r.Text(9) != "" || r.Len() != 0 {
			t.Errorf("%s is read", name)
		}
	}
	if r := NewReader([]byte(strings.Repeat("\xff", 11))); r.Uvarint() != 0 || !r.Failed() {
		t.Error("a varint without an end is read")
	}
}
