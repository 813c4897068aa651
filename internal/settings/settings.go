// Package settings checks the fields of a Config, and reads YAML files that people write. The packages that have a Config or a file say
// which fields there are, and their bounds.
//
// Every error about a Config is a *engine.Error of CodeInvalidConfig that names the field and what it may be. A Reader of YAML collects all
// that is wrong with a file, by line and field, so that one fault hides no other.
package settings

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/units"
)

// Invalid is the error of a field outside what it may be.
func Invalid(field, message string) error {
	return &engine.Error{Code: api.CodeInvalidConfig, Field: field, Message: message}
}

// CheckAddr returns an error unless addr is host:port. The port is a number, or the name of a service that the machine knows.
func CheckAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // a number or a name of the machine's list
	}
	if err != nil {
		return Invalid("Addr", fmt.Sprintf("%s is not an address: write host:port with a port from 0 to 65535", addr))
	}
	return nil
}

// CheckListen returns an error unless addr is host:port, as for CheckAddr, or unix:/path with a path of at most 100 bytes.
func CheckListen(addr string) error {
	path, socket := strings.CutPrefix(addr, "unix:")
	if !socket {
		return CheckAddr(addr)
	}
	if !filepath.IsAbs(path) || len(path) > maxSocketPath {
		return Invalid("Addr", fmt.Sprintf("%s is not the address of a Unix socket: write unix:/path with at most %d bytes", addr, maxSocketPath))
	}
	return nil
}

// maxSocketPath is what all systems take (unix(7): 108 bytes with the final zero on Linux, 104 on macOS).
const maxSocketPath = 100

// Number is a field that is a whole number, with its bounds, which are allowed.
type Number struct {
	Field            string
	Value, Low, High int64
}

// CheckNumbers returns the error of the first that is out of its bounds.
func CheckNumbers(all ...Number) error {
	for _, n := range all {
		if n.Value < n.Low || n.Value > n.High {
			return Invalid(n.Field, fmt.Sprintf("%s is %d: it must be %d to %d", n.Field, n.Value, n.Low, n.High))
		}
	}
	return nil
}

// MaxTimeout is the longest that any timeout may be.
const MaxTimeout = 24 * time.Hour

// Duration is a field that is a time, with its bounds, which are allowed.
type Duration struct {
	Field            string
	Value, Low, High time.Duration
}

// CheckDurations returns the error of the first that is out of its bounds.
func CheckDurations(all ...Duration) error {
	for _, d := range all {
		if d.Value < d.Low || d.Value > d.High {
			return Invalid(d.Field, fmt.Sprintf("%s is %v: it must be %v to %s", d.Field, d.Value, d.Low, units.FormatDuration(d.High)))
		}
	}
	return nil
}
