package xds

import (
	"encoding/json"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-counter/weir/internal/rlsconfig"
)

const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// filesOf writes each resource as a file of limits, in JSON, which is YAML: so files and resources are read, and
// refused, by the same words.
func filesOf(resources []*anypb.Any) (files []byte, err error) {
	if len(resources) > rlsconfig.MaxFiles {
		return nil, fmt.Errorf("%d resources: at most %d", len(resources), rlsconfig.MaxFiles)
	}
	for i, r := range resources {
		var of ratelimit.RateLimitConfig
		if err := r.UnmarshalTo(&of); err != nil {
			return nil, fmt.Errorf("resource %d: %w", i, err)
		}
		text, err := json.Marshal(map[string]any{"domain": of.Domain, "descriptors": descriptors(of.Descriptors)})
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", of.Name, err)
		}
		files = rlsconfig.AppendFile(files, of.Name, text)
	}
	return files, nil
}

func descriptors(list []*ratelimit.RateLimitDescriptor) []any {
	made := make([]any, len(list))
	for i, d := range list {
		fields := map[string]any{
			"key": d.Key, "value": d.Value, "shadow_mode": d.ShadowMode, "quota_mode": d.QuotaMode, "detailed_metric": d.DetailedMetric,
			"descriptors": descriptors(d.Descriptors),
		}
		if d.Metadata != nil {
			fields["metadata"] = d.Metadata.AsMap()
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
