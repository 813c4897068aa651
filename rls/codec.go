package rls

import (
	"fmt"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all messages but answers
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// answer is a RateLimitResponse as it is sent: most of it is ready before it is asked for, and a message of it would be made to be
// written at once.
type answer []byte

// message is the answer as a message.
func (a answer) message() (*pb.RateLimitResponse, error) {
	m := new(pb.RateLimitResponse)
	if err := proto.Unmarshal(a, m); err != nil {
		return nil, fmt.Errorf("an answer that is none: %w", err)
	}
	return m, nil
}

// codec writes answers as they are, and reads and writes all else as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, is := v.(answer); is {
		return mem.BufferSlice{mem.SliceBuffer(a)}, nil
	}
	return c.CodecV2.Marshal(v)
}
