package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"
)

// asker is a connection to a server.
type asker interface {
	// ask asks for one admission of each key. It sends all requests before it reads an answer, where the protocol can.
	ask(ctx context.Context, keys ...key) (allowed int, err error)
	close() error
}

// key is a key with its limit: n in a time of ms milliseconds.
type key struct {
	kind, name string
	n, ms      int
}

// The scripts do what textbooks and libraries do, with the time of Redis. They take the limit and its period in ms.
const (
	// gcraScript stores the time at which the bucket is full again.
	gcraScript = `local t=redis.call('TIME') local now=t[1]*1000000+t[2]
local n,per=tonumber(ARGV[1]),tonumber(ARGV[2])*1000
local tat=math.max(tonumber(redis.call('GET',KEYS[1]) or now),now)+per/n
if tat-now>per then return 0 end
redis.call('SET',KEYS[1],string.format('%.0f',tat),'PX',math.ceil((tat-now)/1000)+1) return 1`

	// logScript stores the time of each admission.
	logScript = `local t=redis.call('TIME') local now=t[1]*1000000+t[2]
redis.call('ZREMRANGEBYSCORE',KEYS[1],0,now-ARGV[2]*1000)
if redis.call('ZCARD',KEYS[1])>=tonumber(ARGV[1]) then return 0 end
redis.call('ZADD',KEYS[1],now,now) redis.call('PEXPIRE',KEYS[1],ARGV[2]) return 1`

	// counterScript counts in fixed windows.
	counterScript = `local n=redis.call('INCR',KEYS[1]) if n==1 then redis.call('PEXPIRE',KEYS[1],ARGV[2]) end
if n>tonumber(ARGV[1]) then return 0 end return 1`
)

// respAsker speaks RESP. words are the command for a key.
type respAsker struct {
	conn  net.Conn
	in    *bufio.Reader
	out   bytes.Buffer
	words func(k key) []string
}

func askWeir(k key) []string {
	return []string{"ALLOW", k.name, "NAME", k.kind, "LIMIT", strconv.Itoa(k.n), "PER", strconv.Itoa(k.ms) + "ms"}
}

func askScript(text string) func(k key) []string {
	sum := sha1.Sum([]byte(text))
	hash := hex.EncodeToString(sum[:])
	return func(k key) []string {
		if k.kind == "" {
			return []string{"SCRIPT", "LOAD", text}
		}
		return []string{"EVALSHA", hash, "1", k.name, strconv.Itoa(k.n), strconv.Itoa(k.ms)}
	}
}

func dialRESP(words func(k key) []string) func(ctx context.Context, address string) (asker, error) {
	return func(ctx context.Context, address string) (asker, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		a := &respAsker{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), words: words}
		if words(key{})[0] != "SCRIPT" {
			return a, nil
		}
		_, err = a.ask(ctx, key{})
		return a, err
	}
}

func (a *respAsker) ask(_ context.Context, keys ...key) (allowed int, err error) {
	a.out.Reset()
	for _, k := range keys {
		words := a.words(k)
		fmt.Fprintf(&a.out, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&a.out, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := a.conn.Write(a.out.Bytes()); err != nil {
		return 0, err
	}
	for range keys {
		n, err := a.reply()
		if err != nil {
			return allowed, err
		}
		allowed += n
	}
	return allowed, nil
}

// reply reads one reply. It returns the number, or the first one of a list.
func (a *respAsker) reply() (n int, err error) {
	line, err := a.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	kind := line[0]
	if kind == '-' {
		return 0, fmt.Errorf("%s", line)
	}
	n, err = strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch {
	case err != nil:
		return 0, err
	case kind == '$':
		_, err := a.in.Discard(max(n+2, 0) * min(n+1, 1))
		return 0, err
	case kind != '*':
		return n, nil
	}
	first := 0
	for i := range n {
		v, err := a.reply()
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = v
		}
	}
	return first, nil
}

func (a *respAsker) close() error { return a.conn.Close() }

// httpAsker speaks HTTP/1.1 with the least work, so that the client costs no more than the RESP client.
type httpAsker struct {
	conn      net.Conn
	in        *bufio.Reader
	head, out bytes.Buffer
}

func dialHTTP(ctx context.Context, address string) (asker, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	a := &httpAsker{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	fmt.Fprintf(&a.head, "POST /v1/allow HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: ", address)
	return a, nil
}

func (a *httpAsker) ask(_ context.Context, keys ...key) (allowed int, err error) {
	for _, k := range keys {
		body := fmt.Sprintf(`{"key":%q,"limit":{"name":%q,"n":%d,"per":"%dms"}}`, k.name, k.kind, k.n, k.ms)
		a.out.Reset()
		a.out.Write(a.head.Bytes())
		fmt.Fprintf(&a.out, "%d\r\n\r\n%s", len(body), body)
		if _, err := a.conn.Write(a.out.Bytes()); err != nil {
			return allowed, err
		}
		status, err := a.answer()
		if err != nil {
			return allowed, err
		}
		switch status {
		case 200:
			allowed++
		case 429:
		default:
			return allowed, fmt.Errorf("status %d", status)
		}
	}
	return allowed, nil
}

// answer reads an answer with a Content-Length.
func (a *httpAsker) answer() (status int, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := a.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		switch name, value, _ := bytes.Cut(line, []byte(":")); {
		case first && len(line) >= 12:
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, err
			}
		case len(line) == 0 && length < 0:
			return 0, errors.New("an answer without Content-Length")
		case len(line) == 0:
			_, err := a.in.Discard(length)
			return status, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

func (a *httpAsker) close() error { return a.conn.Close() }

// envoyAsker asks as Envoy does.
type envoyAsker struct {
	conn   *grpc.ClientConn
	client pb.RateLimitServiceClient
}

func dialEnvoy(_ context.Context, address string) (asker, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &envoyAsker{conn, pb.NewRateLimitServiceClient(conn)}, nil
}

func (a *envoyAsker) ask(ctx context.Context, keys ...key) (allowed int, err error) {
	for _, k := range keys {
		answer, err := a.client.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: k.kind, Value: k.name}}},
		}})
		if err != nil {
			return allowed, err
		}
		if answer.Statuses[0].CurrentLimit == nil {
			return allowed, fmt.Errorf("no limit applies: %v", answer)
		}
		if answer.OverallCode == pb.RateLimitResponse_OK {
			allowed++
		}
	}
	return allowed, nil
}

func (a *envoyAsker) close() error { return a.conn.Close() }

// gubernatorAsker asks as gubernator's clients do. Its few fields are encoded here, so that its module is not needed.
type gubernatorAsker struct{ conn *grpc.ClientConn }

func dialGubernator(_ context.Context, address string) (asker, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		return nil, err
	}
	return &gubernatorAsker{conn}, nil
}

func (a *gubernatorAsker) ask(ctx context.Context, keys ...key) (allowed int, err error) {
	for _, k := range keys {
		var request, all, answer []byte
		text := func(field protowire.Number, s string) {
			request = protowire.AppendString(protowire.AppendTag(request, field, protowire.BytesType), s)
		}
		number := func(field protowire.Number, n int) {
			request = protowire.AppendVarint(protowire.AppendTag(request, field, protowire.VarintType), uint64(n))
		}
		text(1, k.kind)
		text(2, k.name)
		number(3, 1) // hits
		number(4, k.n)
		number(5, k.ms)
		number(6, 1) // leaky bucket
		all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), request)
		if err := a.conn.Invoke(ctx, "/pb.gubernator.V1/GetRateLimits", &all, &answer); err != nil {
			return allowed, err
		}
		over, err := gubernatorOver(answer)
		if err != nil {
			return allowed, err
		}
		if !over {
			allowed++
		}
	}
	return allowed, nil
}

// gubernatorOver reads the status (field 1) and the error (field 5) of the first answer.
func gubernatorOver(answer []byte) (over bool, err error) {
	_, _, n := protowire.ConsumeTag(answer)
	if n < 0 {
		return false, errors.New("an empty answer")
	}
	first, n := protowire.ConsumeBytes(answer[n:])
	if n < 0 {
		return false, protowire.ParseError(n)
	}
	for len(first) > 0 {
		field, kind, n := protowire.ConsumeTag(first)
		if n < 0 {
			return false, protowire.ParseError(n)
		}
		value := first[n:]
		if n = protowire.ConsumeFieldValue(field, kind, value); n < 0 {
			return false, protowire.ParseError(n)
		}
		switch field {
		case 1:
			status, _ := protowire.ConsumeVarint(value)
			over = status == 1
		case 5:
			if text, _ := protowire.ConsumeString(value); text != "" {
				return false, errors.New(text)
			}
		}
		first = value[n:]
	}
	return over, nil
}

func (a *gubernatorAsker) close() error { return a.conn.Close() }

// rawCodec sends and receives *[]byte as they are.
type rawCodec struct{}

var _ encoding.Codec = rawCodec{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

func (rawCodec) Name() string { return "proto" }
