package limits

import (
	"github.com/weir-counter/weir/client"
	"github.com/weir-counter/weir/policy"
)

// checked is what was found in a policy file, in JSON.
type checked struct {
	File     string          `json:"file"`
	Good     bool            `json:"good"`
	Policies []checkedPolicy `json:"policies"`
	Faults   []checkedFault  `json:"faults"`
	Warnings []checkedFault  `json:"warnings"`
	Keys     []checkedKey    `json:"keys,omitempty"`
}

type checkedPolicy struct {
	Name      string  `json:"name"`
	Keys      string  `json:"keys"`
	By        string  `json:"by,omitempty"`
	Limit     uint64  `json:"limit"`
	PerS      float64 `json:"per_s"`
	Burst     uint64  `json:"burst"`
	Algorithm string  `json:"algorithm"`
	Calendar  string  `json:"calendar,omitempty"`
	Mode      string  `json:"mode"`
	Where     string  `json:"where"`
	Away      string  `json:"away,omitempty"` // of a strict one

	Global    bool                `json:"global,omitempty"`  // over regions, without parts
	Regions   []client.RegionPart `json:"regions,omitempty"` // of one over regions
	WaitS     float64             `json:"wait_s,omitempty"`
	Cost      string              `json:"cost,omitempty"`
	DenyForS  float64             `json:"deny_for_s,omitempty"`
	Order     int                 `json:"order"`
	Last      bool                `json:"last"`
	Overrides int                 `json:"overrides"`
	Line      int                 `json:"line"`
}

type checkedFault struct {
	Line    int    `json:"line"` // 0: the file as a whole
	Field   string `json:"field"`
	Message string `json:"message"`
}

// checkedKey is a key and the policies that are for it.
type checkedKey struct {
	Key      string         `json:"key"`
	Policies []checkedMatch `json:"policies"`
}

type checkedMatch struct {
	Name   string  `json:"name"`
	Counts string  `json:"counts"` // the key that is counted
	Limit  uint64  `json:"limit"`  // of that key
	PerS   float64 `json:"per_s"`
	Burst  uint64  `json:"burst"`
}

func newChecked(file string, set *policy.Set, faults policy.Faults, warnings []policy.Fault, keys []string) checked {
	c := checked{File: file, Good: len(faults) == 0, Policies: []checkedPolicy{}, Faults: newCheckedFaults(faults), Warnings: newCheckedFaults(warnings)}
	if set == nil {
		return c
	}
	for _, p := range set.Policies() {
		away := ""
		if p.Where.ByOne() {
			away = p.Away.String()
		}
		c.Policies = append(c.Policies, checkedPolicy{
			Name: p.Name, Keys: p.Keys, By: p.By, Limit: p.Limit.N, PerS: p.Limit.Per.Seconds(), Burst: p.Limit.Burst,
			Algorithm: p.Limit.Algorithm.String(), Calendar: p.Limit.Calendar.String(), Mode: p.Mode.String(), Where: p.Where.String(), Away: away, Order: p.Order, Last: p.Last, Overrides: len(p.Overrides), Line: p.Line, Global: p.Global, Regions: partsOf(p),
			WaitS: p.Wait.Seconds(), Cost: p.Cost, DenyForS: p.DenyFor.Seconds(),
		})
	}
	for _, key := range keys {
		k := checkedKey{key, []checkedMatch{}}
		for _, m := range set.Match(key) {
			k.Policies = append(k.Policies, checkedMatch{m.Policy.Name, m.Key, m.Limit.N, m.Limit.Per.Seconds(), m.Limit.Burst})
		}
		c.Keys = append(c.Keys, k)
	}
	return c
}

func partsOf(p policy.Policy) (parts []client.RegionPart) {
	for _, part := range p.Parts {
		parts = append(parts, client.RegionPart{Region: part.Region, Percent: int(part.Percent), Burst: part.Burst})
	}
	return parts
}

func newCheckedFaults(faults []policy.Fault) []checkedFault {
	made := []checkedFault{}
	for _, f := range faults {
		made = append(made, checkedFault{f.Line, f.Field, f.Message})
	}
	return made
}
