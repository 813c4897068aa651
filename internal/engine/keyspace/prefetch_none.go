//go:build !amd64 && !arm64

package keyspace

import "unsafe"

// PrefetchRead and PrefetchWrite do nothing where nobody has written them.
func PrefetchRead(unsafe.Pointer) {}

func PrefetchWrite(unsafe.Pointer) {}
