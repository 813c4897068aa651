package envoy

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/service/access"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const kuadrantName = "kuadrant.service.ratelimit.v1.RateLimitService"

// kuadrantService is kuadrant.service.ratelimit.v1.RateLimitService, described by hand: there is no Go module of it. CheckRateLimit
// and Report have Envoy's messages: the first takes nothing, and the second takes what has passed. Reserve and Commit have messages
// of their own (Kuadrant's RFC 0021), with the field numbers of Envoy's request for the domain and the descriptors.
func (s *Server) kuadrantService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: kuadrantName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			s.method("CheckRateLimit", check, callCheckRateLimit), s.method("Report", report, callReport),
			s.unary("Reserve", callReserve, s.reserve), s.unary("Commit", callCommit, s.commit),
		},
	}
}

// kuadrantCall is a ReserveRequest, or a CommitRequest.
type kuadrantCall struct {
	pb.RateLimitRequest                     // fields 1 and 2
	amount              uint64              // 3, or 4 of a CommitRequest
	ttl                 durationpb.Duration // 4
	id                  string              // 3
}

// readKuadrant reads a message by its field numbers and their types.
func readKuadrant(decode func(any) error) (*kuadrantCall, error) {
	raw, m := new(emptypb.Empty), new(kuadrantCall)
	if err := decode(raw); err != nil {
		return nil, err
	}
	var request []byte
	for b := raw.ProtoReflect().GetUnknown(); len(b) > 0; { // decode has checked the fields
		field, kind, size := protowire.ConsumeTag(b)
		value := b[size:]
		size += protowire.ConsumeFieldValue(field, kind, value)
		switch {
		case field <= 2:
			request = append(request, b[:size]...)
		case field > 4:
		case kind == protowire.VarintType:
			m.amount, _ = protowire.ConsumeVarint(value)
		case kind == protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			if field == 3 {
				m.id = string(text)
			} else if err := proto.Unmarshal(text, &m.ttl); err != nil {
				return nil, err
			}
		}
		b = b[size:]
	}
	return m, proto.Unmarshal(request, &m.RateLimitRequest)
}

// kuadrantAsk reads a message and finds its limits. Each descriptor takes the amount. The caller frees the ask, also after an error.
func (s *Server) kuadrantAsk(by purpose, decode func(any) error) (*ask, *kuadrantCall, error) {
	m, err := readKuadrant(decode)
	if err != nil {
		return newAsk(by), m, err
	}
	a, err := s.newAsk(by, &m.RateLimitRequest)
	for i := range a.parts {
		a.parts[i].n, a.parts[i].refund = m.amount, false
	}
	return a, m, err
}

// reserve serves Reserve. What is not committed within ttl is given back. An amount of 0 asks whether anything is left.
func (s *Server) reserve(ctx context.Context, c access.Caller, decode func(any) error) (answer, error) {
	a, m, err := s.kuadrantAsk(reserve, decode)
	defer a.free()
	if err != nil {
		return nil, err
	}
	a.reservation.TTL, a.reservation.GiveBack = min(m.ttl.AsDuration(), engine.MaxReservation), true
	a.prepare(s.cfg.Algorithm)
	denied, err := a.decide(s.service, c)
	if err != nil {
		return nil, err
	}
	if denied {
		return appendUint(nil, fieldOverallCode, uint64(pb.RateLimitResponse_OVER_LIMIT)), nil
	}
	b := appendUint(nil, fieldOverallCode, uint64(pb.RateLimitResponse_OK))
	return appendBytes(b, 2, a.reservation.ID), nil // reservation_id
}

// commit serves Commit. What was used beyond the reservation, or without one, counts as debt.
func (s *Server) commit(ctx context.Context, c access.Caller, decode func(any) error) (answer, error) {
	a, m, err := s.kuadrantAsk(report, decode)
	defer a.free()
	if err != nil {
		return nil, err
	}
	a.prepare(s.cfg.Algorithm)
	if err := a.permit(s.service, c); err != nil {
		return nil, err
	}
	settled, err := s.service.Commit(ctx, c, a.requests, m.id, m.amount)
	if err != nil || !settled {
		return answer{}, err
	}
	return appendUint(nil, 1, 1), nil // reservation_released
}
