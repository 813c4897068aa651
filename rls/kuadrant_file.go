package rls

import (
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// kuadrantFile describes Kuadrant's service to who asks by reflection. It is built here, since there is no Go module of it, and is not in
// the process's registry, where a program that embeds Weir may have Kuadrant's own.
func kuadrantFile(of *grpc.ServiceDesc) (protoreflect.FileDescriptor, error) {
	asked, answer := new(pb.RateLimitRequest).ProtoReflect().Descriptor(), new(pb.RateLimitResponse).ProtoReflect().Descriptor()
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("RateLimitService")}
	for _, m := range of.Methods {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m.MethodName), InputType: proto.String("." + string(asked.FullName())), OutputType: proto.String("." + string(answer.FullName())),
		})
	}
	return protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String(kuadrantFileName), Package: proto.String("kuadrant.service.ratelimit.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{asked.ParentFile().Path()}, Service: []*descriptorpb.ServiceDescriptorProto{service},
	}, protoregistry.GlobalFiles)
}

// withKuadrant finds what the process's registry has, and Kuadrant's file.
type withKuadrant struct{ file protoreflect.FileDescriptor }

func (w withKuadrant) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if path == w.file.Path() {
		return w.file, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (w withKuadrant) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	service := w.file.Services().Get(0)
	if name == service.FullName() {
		return service, nil
	}
	if name.Parent() == service.FullName() {
		if method := service.Methods().ByName(name.Name()); method != nil {
			return method, nil
		}
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// registerReflection lets clients such as grpcurl ask which services there are, in both versions of that protocol.
func registerReflection(s *grpc.Server, files withKuadrant) {
	o := reflection.ServerOptions{Services: s, DescriptorResolver: files}
	reflectionpb.RegisterServerReflectionServer(s, reflection.NewServerV1(o))
	reflectionalpha.RegisterServerReflectionServer(s, reflection.NewServer(o))
}
