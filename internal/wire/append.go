package wire

import "encoding/binary"

// AppendText appends a text as Text reads it.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendBlock appends bytes as Block reads them.
func AppendBlock(b, block []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(block))), block...)
}

// AppendBool appends a byte as Bool reads it.
func AppendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}
