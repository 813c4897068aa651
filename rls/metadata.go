package rls

import (
	"strconv"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata is what Envoy keeps of an answer for access logs and other filters, as envoyproxy/ratelimit has it: domain and
// descriptors of the request, and the metadata of the limits that let it pass; of a field that several have, the first. Weir's own is
// limits: what is known of other regions, of limits that they share.
func (a *ask) metadata(req *pb.RateLimitRequest) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(req.Descriptors))
	for i, d := range req.Descriptors {
		descriptors[i] = structpb.NewStructValue(descriptorFields(d))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(req.Domain),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if req.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(req.HitsAddend))
	}
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range a.parts {
		p := &a.parts[i]
		if p.limit != nil && !p.limit.Unlimited && a.code(p) == pb.RateLimitResponse_OK {
			merge(passed, p.limit.metadata)
		}
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	if regions := a.regions(); len(regions) > 0 {
		fields["limits"] = structpb.NewListValue(&structpb.ListValue{Values: regions})
	}
	return &structpb.Struct{Fields: fields}
}

// regions are the limits that regions share of which there is something to say, each as /v1/allow has it: how many admissions of other
// regions counted, and which regions are late.
func (a *ask) regions() (limits []*structpb.Value) {
	for i := range a.decision.Results {
		r := &a.decision.Results[i]
		if r.Others == 0 && len(r.Late) == 0 {
			continue
		}
		late := make([]*structpb.Value, len(r.Late))
		for i, name := range r.Late {
			late[i] = structpb.NewStringValue(name)
		}
		limits = append(limits, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"name": structpb.NewStringValue(r.Name), "key": structpb.NewStringValue(r.Key),
			"others": structpb.NewNumberValue(float64(r.Others)), "late": structpb.NewListValue(&structpb.ListValue{Values: late}),
		}}))
	}
	return limits
}

func descriptorFields(d *ratelimit.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if l := d.GetLimit(); l != nil {
		fields["limit"] = structpb.NewStringValue(strconv.FormatUint(uint64(l.GetRequestsPerUnit()), 10) + "/" + l.GetUnit().String())
	}
	if n := d.GetHitsAddend(); n != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

// merge adds to the fields of one structure those of another that it has not, within structures too. What is added is not
// changed later.
func merge(to, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		have, has := to.Fields[name]
		inner := value.GetStructValue()
		switch {
		case !has && inner != nil: // a copy: a later limit may add to it
			made := &structpb.Struct{Fields: map[string]*structpb.Value{}}
			merge(made, inner)
			to.Fields[name] = structpb.NewStructValue(made)
		case !has:
			to.Fields[name] = value
		case inner != nil && have.GetStructValue() != nil:
			merge(have.GetStructValue(), inner)
		}
	}
}
