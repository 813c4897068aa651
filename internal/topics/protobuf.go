package topics

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/internal/replay"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

var errNotProtobuf = errors.New("it is not a message of the type in the descriptor file")

// protobuf reads messages of one type of Protocol Buffers.
type protobuf struct {
	kind   protoreflect.MessageDescriptor
	fields []protoField
}

// protoField is a field that matters, with the fields on the way to it. The way to a google.protobuf.Timestamp ends at its seconds.
type protoField struct {
	name string
	way  []protoreflect.FieldDescriptor
}

// openProtobuf reads a file that protoc --include_imports --descriptor_set_out writes, and finds a type and fields in it.
func openProtobuf(file, message string, names []string) (*protobuf, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(data, set); err != nil {
		return nil, fmt.Errorf("descriptor: %s: make it with protoc --include_imports --descriptor_set_out: %w", file, err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %s: make it with protoc --include_imports --descriptor_set_out: %w", file, err)
	}
	found, _ := files.FindDescriptorByName(protoreflect.FullName(message))
	kind, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("message: %s has no message %q: write its package too, such as shop.v1.Visit", file, message)
	}
	p := &protobuf{kind: kind}
	for _, name := range names {
		if way := wayTo(kind, name); way != nil {
			p.fields = append(p.fields, protoField{name, way})
		}
	}
	return p, nil
}

// wayTo returns the way to a field, such as user.id; nil: there is none.
func wayTo(kind protoreflect.MessageDescriptor, name string) (way []protoreflect.FieldDescriptor) {
	for part := range strings.SplitSeq(name, ".") {
		if kind == nil {
			return nil
		}
		field := kind.Fields().ByTextName(part)
		if field == nil || field.IsList() || field.IsMap() {
			return nil
		}
		way, kind = append(way, field), field.Message()
	}
	switch {
	case kind == nil:
		return way
	case kind.FullName() == "google.protobuf.Timestamp":
		return append(way, kind.Fields().ByName("seconds"))
	}
	return nil
}

// set gives a hit the fields of a message. A field with its default value is missing, as in JSON of Protocol Buffers.
func (p *protobuf) set(to *replay.Objects, data []byte) error {
	message := dynamicpb.NewMessage(p.kind)
	if (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(data, message) != nil {
		return errNotProtobuf
	}
	for _, f := range p.fields {
		in, last := message.ProtoReflect(), len(f.way)-1
		for _, d := range f.way[:last] {
			in = in.Get(d).Message()
		}
		d := f.way[last]
		if !in.Has(d) {
			continue
		}
		switch value := in.Get(d); d.Kind() {
		case protoreflect.StringKind:
			to.Set(f.name, []byte(value.String()))
		case protoreflect.BytesKind:
			to.Set(f.name, value.Bytes())
		case protoreflect.EnumKind:
			if known := d.Enum().Values().ByNumber(value.Enum()); known != nil {
				to.Set(f.name, []byte(known.Name()))
			}
		case protoreflect.FloatKind, protoreflect.DoubleKind:
			to.SetNumber(f.name, strconv.AppendFloat(nil, value.Float(), 'f', -1, 64))
		default:
			to.SetNumber(f.name, fmt.Append(nil, value.Interface()))
		}
	}
	return nil
}
