//go:build amd64 || arm64

package keyspace

import "unsafe"

// PrefetchRead asks the processor for the cache line at p, to be read, and does not wait for it: what is done meanwhile costs nothing. A
// load asks too, but the processor goes on for some hundred instructions only until it has come. Any p will do, also one that is no memory.
//
//go:noescape
func PrefetchRead(p unsafe.Pointer)

// PrefetchWrite asks for the cache line at p, to be written: another core gives it up at once, and not only once it
// was read.
//
//go:noescape
func PrefetchWrite(p unsafe.Pointer)
