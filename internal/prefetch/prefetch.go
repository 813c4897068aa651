//go:build amd64 || arm64

// Package prefetch asks the processor for memory that will be needed soon, and does not wait for it:
// what is done meanwhile costs nothing. A load asks too, but the processor goes on for some hundred
// instructions only until it has come.
package prefetch

import "unsafe"

// Read asks for the cache line at p, to be read. Any p will do, also one that is no memory.
//
//go:noescape
func Read(p unsafe.Pointer)

// Write asks for the cache line at p, to be written: another core gives it up at once, and not only once it
// was read.
//
//go:noescape
func Write(p unsafe.Pointer)
