package shadow

import (
	"fmt"
	"io"

	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/replay"
)

// Options say what to read and which limits to ask. Log.Files and Policies are required.
type Options struct {
	// Log says what to read and which keys its lines have: Files, Stdin, Format, Keys,
	// MaxAhead, Workers, Progress and Now; its other fields are not used. All keys of a
	// line are one request. Keys is by default as DefaultKeys says.
	Log replay.Options

	// Policies are the limits, from the file PolicyFile.
	Policies   *policy.Set
	PolicyFile string

	// AsWritten lets a policy in shadow mode deny nothing, as it would on a server. Else
	// every policy is enforced.
	AsWritten bool

	// Top is how many of the most denied keys are listed for each limit. Default 10, at
	// most MaxTop.
	Top int

	// Memory is the budget for the records of the keys, in bytes. Default 256 MiB, at
	// least MinMemory.
	Memory int64

	// LimitMemory is the budget for what keys have used of their limits, in bytes.
	// Requests that do not fit are undecided. Default 256 MiB.
	LimitMemory int64

	// Denied, if set, gets every denial: see DeniedHeader.
	Denied io.Writer
}

const (
	// MaxTop is the most keys that are listed for a limit.
	MaxTop = 10_000

	// MinMemory is the least budget for records, in bytes.
	MinMemory = 1 << 20
)

func (o Options) withDefaults() Options {
	if o.Top == 0 {
		o.Top = 10
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	if o.LimitMemory == 0 {
		o.LimitMemory = 256 << 20
	}
	if o.Log.DefaultKeys == nil {
		o.Log.DefaultKeys = func(f replay.Format) []string { return DefaultKeys(f, o.Policies) }
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Policies == nil || len(o.Policies.Policies()) == 0:
		return fmt.Errorf("%s has no policies: there is nothing to ask", o.PolicyFile)
	case o.Top < 1 || o.Top > MaxTop:
		return &replay.OptionError{Field: "Top", Message: fmt.Sprintf("%d keys: it must be 1 to %d", o.Top, MaxTop)}
	case o.Memory < MinMemory:
		return &replay.OptionError{Field: "Memory", Message: units.FormatSize(o.Memory) + ": it must be at least 1MiB"}
	}
	return nil
}
