package export

import "encoding/binary"

// thrift writes structs in Thrift's compact protocol, as far as Parquet's footer needs it. Fields
// come in the order of their numbers.
type thrift struct {
	b    []byte
	last []int // number of the last field, of each struct that is open
}

const (
	thriftInt, thriftLong, thriftBytes, thriftList, thriftStruct = 5, 6, 8, 9, 12
)

func (t *thrift) begin() { t.last = append(t.last, 0) }

func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}

// field writes the head of a field; numbers of ours are less than 16 apart.
func (t *thrift) field(number int, kind byte) {
	last := &t.last[len(t.last)-1]
	t.b = append(t.b, byte(number-*last)<<4|kind)
	*last = number
}

func (t *thrift) number(v int64) { t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) string(s string) {
	t.b = append(binary.AppendUvarint(t.b, uint64(len(s))), s...)
}

func (t *thrift) int(field int, v int64)  { t.field(field, thriftInt); t.number(v) }
func (t *thrift) long(field int, v int64) { t.field(field, thriftLong); t.number(v) }

func (t *thrift) text(field int, s string) { t.field(field, thriftBytes); t.string(s) }

func (t *thrift) object(field int, content func()) {
	t.field(field, thriftStruct)
	t.begin()
	content()
	t.end()
}

func (t *thrift) head(field, n int, kind byte) {
	t.field(field, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n)<<4|kind)
		return
	}
	t.b = binary.AppendUvarint(append(t.b, 0xf0|kind), uint64(n))
}

// list writes a list of structs.
func (t *thrift) list(field, n int, content func(i int)) {
	t.head(field, n, thriftStruct)
	for i := range n {
		t.begin()
		content(i)
		t.end()
	}
}

func (t *thrift) ints(field int, list ...int64) {
	t.head(field, len(list), thriftInt)
	for _, v := range list {
		t.number(v)
	}
}

func (t *thrift) texts(field int, list ...string) {
	t.head(field, len(list), thriftBytes)
	for _, s := range list {
		t.string(s)
	}
}
