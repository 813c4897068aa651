package listener

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
)

// Closing lets the address go.
func TestAnOpeningThatNobodyTakesOver(t *testing.T) {
	t.Parallel()
	open := func(addr string) (*Opening, error) {
		return OpenListener(addr, 10, slog.New(slog.DiscardHandler), func(net.Conn) {})
	}
	o, err := open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(o.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address in use: %v", err)
	}
	for range 2 {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	again, err := open(o.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
