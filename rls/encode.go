package rls

import (
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of messages, by number.
const (
	// of RateLimitResponse
	fieldOverallCode     protowire.Number = 1
	fieldStatuses        protowire.Number = 2
	fieldHeaders         protowire.Number = 3
	fieldDynamicMetadata protowire.Number = 6

	// of DescriptorStatus
	fieldCode           protowire.Number = 1
	fieldCurrentLimit   protowire.Number = 2
	fieldLimitRemaining protowire.Number = 3
	fieldUntilReset     protowire.Number = 4

	// of RateLimit
	fieldRequests   protowire.Number = 1
	fieldUnit       protowire.Number = 2
	fieldName       protowire.Number = 3
	fieldMultiplier protowire.Number = 4

	// of Duration, of UInt32Value, and of HeaderValue
	fieldSeconds protowire.Number = 1
	fieldNumber  protowire.Number = 1
	fieldKey     protowire.Number = 1
	fieldValue   protowire.Number = 2
)

// appendUint appends a number; 0 is what a field that is not there has.
func appendUint(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendBytes appends a text, or a message.
func appendBytes[T string | []byte](b []byte, field protowire.Number, of T) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(len(of)))
	return append(b, of...)
}

// appendHeader appends a header field that Envoy is asked to add.
func appendHeader(b []byte, key string, value []byte) []byte {
	size := protowire.SizeTag(fieldKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(fieldValue) + protowire.SizeBytes(len(value))
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldHeaders, protowire.BytesType), uint64(size))
	return appendBytes(appendBytes(b, fieldKey, key), fieldValue, value)
}

// shown is a limit as answers have it.
type shown struct {
	requests uint32
	wire     []byte // a RateLimitResponse.RateLimit
}

// newShown makes it of a limit in Envoy's words. A multiplier of 1 is not told.
func newShown(name string, requests uint32, unit pb.RateLimitResponse_RateLimit_Unit, multiplier uint32) *shown {
	b := appendUint(appendUint(nil, fieldRequests, uint64(requests)), fieldUnit, uint64(unit))
	if name != "" {
		b = appendBytes(b, fieldName, name)
	}
	if multiplier > 1 {
		b = appendBytes(b, fieldMultiplier, appendUint(nil, fieldNumber, uint64(multiplier)))
	}
	return &shown{requests, b}
}
