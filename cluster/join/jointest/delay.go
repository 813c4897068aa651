package jointest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/weir-counter/weir/cluster/join"
)

// Delay stands between nodes that are far from each other: what one says is heard by the
// other so much later, both ways, in order. Nothing is lost, and as much may be on its
// way as TCP lets.
type Delay struct {
	oneWay  time.Duration
	done    chan struct{}
	copying sync.WaitGroup
}

// NewDelay is for nodes with a round trip time between them, until the test ends.
func NewDelay(t testing.TB, roundTrip time.Duration) *Delay {
	d := &Delay{oneWay: roundTrip / 2, done: make(chan struct{})}
	t.Cleanup(func() {
		close(d.done)
		d.copying.Wait()
	})
	return d
}

// Between puts it before the nodes of some configurations, which have their Addr and
// Peers set.
func (d *Delay) Between(t testing.TB, configs []*join.Config) {
	t.Helper()
	for i, listen := range Addrs(t, len(configs)) {
		configs[i].Listen = listen
		d.before(t, configs[i].Addr, listen)
	}
}

// before lets others reach at addr what listens at target.
func (d *Delay) before(t testing.TB, addr, target string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			d.copying.Go(func() { d.carry(from, target) })
		}
	}()
}

func (d *Delay) carry(from net.Conn, target string) {
	to, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		from.Close()
		return
	}
	end := sync.OnceFunc(func() { from.Close(); to.Close() })
	ended := make(chan struct{})
	defer close(ended)
	d.copying.Go(func() {
		select {
		case <-d.done:
		case <-ended:
		}
		end()
	})
	d.copying.Go(func() {
		defer end()
		d.copy(from, to)
	})
	defer end()
	d.copy(to, from)
}

// said is what was read at once, and when it is heard.
type said struct {
	what []byte
	at   time.Time
}

// chunks is how many pieces may be on their way in one direction.
const chunks = 4096

func (d *Delay) copy(to io.Writer, from io.Reader) {
	way := make(chan said, chunks)
	d.copying.Go(func() {
		broken := false
		for s := range way {
			if broken { // the other side ends soon
				continue
			}
			select {
			case <-time.After(time.Until(s.at)):
			case <-d.done:
			}
			_, err := to.Write(s.what)
			broken = err != nil
		}
	})
	defer close(way)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case way <- said{append([]byte(nil), buffer[:n]...), time.Now().Add(d.oneWay)}:
			case <-d.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}
