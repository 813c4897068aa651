//go:build !amd64 && !arm64

package keyspace

import "unsafe"

// PrefetchRead does nothing on this processor.
func PrefetchRead(unsafe.Pointer) {}

// PrefetchWrite does nothing on this processor.
func PrefetchWrite(unsafe.Pointer) {}
