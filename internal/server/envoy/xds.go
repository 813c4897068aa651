package envoy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/internal/units"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// This file gets the limits of the rate limit service from a management server, such as Envoy Gateway. It is a client
// of Envoy's aggregated discovery service (ADS, state of the world). The resources have the type
// ratelimit.config.ratelimit.v3.RateLimitConfig.
//
// Invariants. The limits that were accepted last stay in use, whatever happens to the server. Each answer is
// acknowledged, or refused with the reason, before the next one is read.

// XDSConfig says where the management server is, and who asks it.
type XDSConfig struct {
	// Addr is the server's, host:port. "": there is none.
	Addr string
	// Node is the name by which the server knows this client. Default envoy-ratelimit, the name that Envoy Gateway
	// expects.
	Node string
	// CA is a file with the authorities of the server's certificate. "": the connection has no TLS.
	CA string
	// Cert and Key are files with the client's certificate, if the server wants one. All three are read again for each
	// connection.
	Cert, Key string
	// Logger gets the structured log. Default slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns the Config with the defaults that its zeros stand for.
func (c XDSConfig) WithDefaults() XDSConfig {
	c.Node = cmp.Or(c.Node, "envoy-ratelimit")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Validate says what is wrong with a Config whose Addr is given.
func (c XDSConfig) Validate() error {
	switch err := settings.CheckAddr(c.Addr); {
	case err != nil:
		return err
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("--rls-xds-tls has only one of tls.crt and tls.key: put both there, or neither")
	case c.Cert != "" && c.CA == "":
		return errors.New("a certificate is for TLS: put ca.crt into --rls-xds-tls too")
	case c.CA != "":
		_, err := c.tls()
		return err
	}
	return nil
}

// tls reads the files.
func (c *XDSConfig) tls() (*tls.Config, error) {
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !made.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificates in PEM", c.CA)
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

// XDSClient asks one management server. Create it with New.
type XDSClient struct {
	cfg  XDSConfig // defaults applied
	take func(files []byte) error

	connected atomic.Bool // an answer came on the stream that is open
	refused   atomic.Bool // the newest answer is not in use
}

const (
	// maxAnswerBytes bounds an answer.
	maxAnswerBytes = MaxBytes
	// pingEvery finds a server that is gone without a word.
	pingEvery = 30 * time.Second

	// maxMessages bounds the descriptors, limits and other messages of an answer, and maxEnvelope its resources and other messages of the
	// answer itself. They are counted before they are decoded: a descriptor takes up to 8 KiB until it is a limit. Each of
	// MaxLimits needs two messages, and one more for each descriptor above it that it does not share.
	maxMessages = 8 * MaxLimits
	maxEnvelope = MaxConfigFiles + 100
	// maxVersionBytes and maxProblemBytes bound what the log has of an answer, and maxVersion a version that is used.
	maxVersionBytes, maxProblemBytes = 100, 2000
	maxVersion                       = 4096
	// refusedPause is how long the next answer waits after one that is not in use.
	refusedPause = time.Second

	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
)

// NewXDSClient returns a client that does nothing before Run. The function take puts limits to use, given as files for
// ParseConfig, or returns what is wrong with them.
func NewXDSClient(cfg XDSConfig, take func(files []byte) error) *XDSClient {
	return &XDSClient{cfg: cfg.WithDefaults(), take: take}
}

// Connected reports whether the server answers.
func (c *XDSClient) Connected() bool { return c.connected.Load() }

// Refused reports whether the newest limits are not in use, because they are wrong.
func (c *XDSClient) Refused() bool { return c.refused.Load() }

// Run follows the server until ctx ends. A connection that fails is made again, after a pause that doubles up to 10 s.
func (c *XDSClient) Run(ctx context.Context) {
	pause := firstPause
	version := ""
	for ctx.Err() == nil {
		err := c.follow(ctx, &version)
		if c.connected.Swap(false) {
			pause = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		c.cfg.Logger.Warn("rate limit service: the management server does not answer; its last limits apply; will reconnect", "addr", c.cfg.Addr, "error", err, "in", pause)
		_ = concurrency.Sleep(ctx, pause) // the loop looks whether ctx has ended
		pause = min(2*pause, longestPause)
	}
}

// follow receives limits on one connection until it fails. version is the version of the limits in use.
func (c *XDSClient) follow(ctx context.Context, version *string) error {
	creds := insecure.NewCredentials()
	if c.cfg.CA != "" {
		with, err := c.cfg.tls()
		if err != nil {
			return err
		}
		creds = credentials.NewTLS(with)
	}
	conn, err := grpc.NewClient(c.cfg.Addr, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes), grpc.ForceCodecV2(boundedCodec{encoding.GetCodecV2(proto.Name)})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		_ = conn.Close() // its stream has failed
	}()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	// The version of an earlier stream is said again, so that the server need not send what is in use.
	request := &discovery.DiscoveryRequest{Node: &core.Node{Id: c.cfg.Node}, TypeUrl: typeURL, VersionInfo: *version}
	for {
		if err := stream.Send(request); err != nil {
			return errors.Join(err, lastWord(stream))
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		c.connected.Store(true)
		request = &discovery.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: *version, ResponseNonce: answer.Nonce}
		if err := c.use(answer); err != nil {
			c.refused.Store(true)
			problem := units.Clip(err.Error(), maxProblemBytes)
			c.cfg.Logger.Error("rate limit service: limits of the management server are not in use", "version", units.Clip(answer.VersionInfo, maxVersionBytes), "problem", problem)
			request.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: problem}
			if err := concurrency.Sleep(ctx, refusedPause); err != nil { // a server that sends the same again and again fills no log
				return err
			}
			continue
		}
		c.refused.Store(false)
		*version, request.VersionInfo = answer.VersionInfo, answer.VersionInfo
	}
}

// lastWord is why the server has ended a stream that can't be sent on.
func lastWord(stream grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]) error {
	_, err := stream.Recv()
	return err
}

func (c *XDSClient) use(answer *discovery.DiscoveryResponse) error {
	if answer.TypeUrl != typeURL {
		return fmt.Errorf("resources of type %q: %s was asked for", answer.TypeUrl, typeURL)
	}
	if len(answer.VersionInfo) > maxVersion || len(answer.Nonce) > maxVersion {
		return fmt.Errorf("a version or nonce of %d bytes: at most %d", max(len(answer.VersionInfo), len(answer.Nonce)), maxVersion)
	}
	files, err := filesOf(answer.Resources)
	if err != nil {
		return err
	}
	return c.take(files)
}

const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// filesOf writes each resource as a file of limits, in JSON, which is YAML. So the same parser reads, or refuses, files
// and resources.
func filesOf(resources []*anypb.Any) (files []byte, err error) {
	if len(resources) > MaxConfigFiles {
		return nil, fmt.Errorf("%d resources: at most %d", len(resources), MaxConfigFiles)
	}
	left := maxMessages
	for i, r := range resources {
		if countMessages(r.Value, (*ratelimit.RateLimitConfig)(nil).ProtoReflect().Descriptor(), &left); left < 0 {
			return nil, fmt.Errorf("resource %d: more than %d descriptors, limits and other messages in one answer", i, maxMessages)
		}
		var config ratelimit.RateLimitConfig
		if err := r.UnmarshalTo(&config); err != nil {
			return nil, fmt.Errorf("resource %d: %w", i, err)
		}
		text, err := json.Marshal(map[string]any{"domain": config.Domain, "descriptors": descriptors(config.Descriptors)})
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", config.Name, err)
		}
		if files = AppendFile(files, config.Name, text); len(files) > MaxBytes {
			return nil, fmt.Errorf("the resources are larger than %s as text", units.FormatSize(MaxBytes))
		}
	}
	return files, nil
}

// boundedCodec decodes an answer only if it has few resources.
type boundedCodec struct{ encoding.CodecV2 }

func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if answer, ok := v.(*discovery.DiscoveryResponse); ok {
		left := maxEnvelope
		if countMessages(data.Materialize(), answer.ProtoReflect().Descriptor(), &left); left < 0 {
			return fmt.Errorf("an answer with more than %d resources", MaxConfigFiles)
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// countMessages subtracts the number of messages within an encoded message, at any depth, from left. It stops when left
// is below 0. It leaves to the decoder what can't be read.
func countMessages(encoded []byte, message protoreflect.MessageDescriptor, left *int) {
	for len(encoded) > 0 && *left >= 0 {
		number, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return
		}
		value := encoded[n:]
		size := protowire.ConsumeFieldValue(number, kind, value)
		if size < 0 {
			return
		}
		encoded = value[size:]
		field := message.Fields().ByNumber(number)
		if kind != protowire.BytesType || field == nil || field.Message() == nil {
			continue
		}
		*left--
		within, _ := protowire.ConsumeBytes(value)
		countMessages(within, field.Message(), left)
	}
}

func descriptors(list []*ratelimit.RateLimitDescriptor) []any {
	made := make([]any, len(list))
	for i, d := range list {
		fields := map[string]any{}
		for name, value := range map[string]any{"key": d.Key, "value": d.Value, "shadow_mode": d.ShadowMode, "quota_mode": d.QuotaMode, "detailed_metric": d.DetailedMetric} {
			if value != "" && value != false {
				fields[name] = value
			}
		}
		if len(d.Descriptors) > 0 {
			fields["descriptors"] = descriptors(d.Descriptors)
		}
		if l := d.RateLimit; l != nil {
			fields["rate_limit"] = limit(l)
		}
		made[i] = fields
	}
	return made
}

func limit(l *ratelimit.RateLimitPolicy) map[string]any {
	fields := map[string]any{"name": l.Name, "unlimited": l.Unlimited}
	if !l.Unlimited || l.Unit != ratelimit.RateLimitUnit_UNKNOWN {
		fields["unit"], fields["requests_per_unit"] = l.Unit.String(), l.RequestsPerUnit
	}
	var replaces []any
	for _, r := range l.Replaces {
		replaces = append(replaces, map[string]any{"name": r.Name})
	}
	fields["replaces"] = replaces
	return fields
}
