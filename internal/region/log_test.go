package region

import (
	"errors"
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport"
)

// Any node says of a message which region's link brought it: its own copy and the leader alike.
func TestLogKeepsVia(t *testing.T) {
	t.Parallel()
	nats, err := transport.Open(t.Context(), transport.Config{Dir: t.TempDir(), MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nats.Close() })
	l, err := openLog(t.Context(), nats, 7)
	if err != nil {
		t.Fatal(err)
	}
	for i, via := range []string{"", "us-1.a_b"} {
		sequence, err := l.append(t.Context(), uint64(i), entry{data: []byte{byte(i)}, via: via})
		if err != nil || sequence != uint64(i+1) {
			t.Fatal(sequence, err)
		}
		for _, leader := range []bool{false, true} {
			m, err := l.get(t.Context(), sequence, leader)
			if err != nil || m.via != via || len(m.data) != 1 || m.data[0] != byte(i) {
				t.Errorf("leader %v: %+v, %v", leader, m, err)
			}
		}
	}
	if _, err := l.append(t.Context(), 1, entry{data: []byte("x")}); !errors.Is(err, errBehind) {
		t.Errorf("%v", err)
	}
	for _, leader := range []bool{false, true} {
		if _, err := l.get(t.Context(), 3, leader); !errors.Is(err, errNoMessage) {
			t.Errorf("%v", err)
		}
	}
}
