package route

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/wire"
	"github.com/weir-counter/weir/limit"
)

func appendUse(b []byte, u weir.KeyUse) []byte {
	b = wire.AppendText(b, u.Key)
	for _, v := range []uint64{uint64(u.Limit.Algorithm), u.Limit.N, uint64(u.Limit.Per), u.Limit.Burst, u.Used, u.Remaining, uint64(u.Reset)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func readUse(r *wire.Reader) (u weir.KeyUse) {
	u.Key = r.Text(weir.MaxKeyBytes)
	u.Limit.Algorithm = limit.Algorithm(r.AtMost(math.MaxUint8))
	u.Limit.N = r.Uvarint()
	u.Limit.Per = time.Duration(r.AtMost(math.MaxInt64))
	if u.Limit.Burst = r.Uvarint(); u.Limit.Burst == 0 { // of which Share is a part
		r.Fail()
	}
	u.Used, u.Remaining = r.Uvarint(), r.Uvarint()
	u.Reset = time.Duration(r.AtMost(math.MaxInt64))
	return u
}
