package topics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// visit is what protoc makes of a file with two messages and an enum.
const visit = `name: "visit.proto" package: "shop.v1" syntax: "proto3" dependency: "google/protobuf/timestamp.proto"
message_type {
  name: "Visit"
  field { name: "path" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "count" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "user" number: 3 type: TYPE_MESSAGE type_name: ".shop.v1.User" label: LABEL_OPTIONAL }
  field { name: "seen" number: 4 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "at_s" number: 5 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "kind" number: 6 type: TYPE_ENUM type_name: ".shop.v1.Kind" label: LABEL_OPTIONAL }
  field { name: "tags" number: 7 type: TYPE_STRING label: LABEL_REPEATED }
}
message_type { name: "User" field { name: "id" number: 1 type: TYPE_FIXED64 label: LABEL_OPTIONAL } }
enum_type { name: "Kind" value { name: "ANY" number: 0 } value { name: "BUY" number: 1 } }`

// Messages of Protocol Buffers make hits by the fields of a descriptor file.
func TestProtobuf(t *testing.T) {
	t.Parallel()
	file := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(visit), file); err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto), file}}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "visit.binpb")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(query string) (*parser, error) {
		s, err := parseSource("kafka://127.0.0.1:9092/visits?format=protobuf&descriptor=" + name + query)
		if err == nil {
			err = s.check(false)
		}
		if err != nil {
			return nil, err
		}
		return newParser(s, 0)
	}
	for _, c := range []struct{ query, text, want string }{
		{"&key=url:{path}&n=count&time=seen", `path: "/a" count: 3 seen { seconds: 1600000000 nanos: 5 }`, "url:/a 3 1600000000"},
		{"&key=url:{path}&n=count&time=at_s", `path: "/a" at_s: 1600000000`, "url:/a 1 1600000000"},
		{"&key={kind}:{user.id}", `kind: BUY user { id: 18446744073709551615 } tags: "x"`, "BUY:18446744073709551615 1 1699996400"},
		{"&key={kind}:{user.id}", `kind: BUY`, errNoKey.Error()},
		{"&key={tags}", `tags: "x"`, errNoKey.Error()},
		{"&key=url:{path}&n=count", `path: "/a" count: -1`, "not a whole number"},
		{"&key={user}", `user { id: 1 }`, errNoKey.Error()},
	} {
		p, err := open("&message=shop.v1.Visit" + c.query)
		if err != nil {
			t.Fatal(err)
		}
		message := dynamicpb.NewMessage(p.proto.kind)
		if err := prototext.Unmarshal([]byte(c.text), message); err != nil {
			t.Fatal(err)
		}
		value, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		checkHit(t, p, value, c.want)
	}
	p, err := open("&message=shop.v1.Visit&key={path}")
	if err != nil {
		t.Fatal(err)
	}
	checkHit(t, p, []byte(`{"path":"/a"}`), errNotProtobuf.Error())
	for _, c := range []struct{ query, want string }{
		{"&message=Visit", "write its package too"},
		{"&message=shop.v1.Kind", "no message"},
		{"", "belong together"},
	} {
		if _, err := open(c.query); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.query, err, c.want)
		}
	}
	if _, err := openProtobuf(filepath.Join(t.TempDir(), "none"), "x", nil); err == nil {
		t.Error("a file that is not there is read")
	}
}

// checkHit looks that a message makes one hit, or fails.
func checkHit(t *testing.T, p *parser, value []byte, want string) {
	t.Helper()
	now, to, got := time.Unix(1_700_000_000, 0), piece{}, ""
	if err := p.add(&to, &message{at: now.Add(-time.Hour), value: value}, now); err != nil {
		got = err.Error()
	} else {
		got = hitText(to.hits)
	}
	if !strings.Contains(got, want) {
		t.Errorf("%q: %s, want %s", value, got, want)
	}
}
