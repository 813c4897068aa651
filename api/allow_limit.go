package api

import "encoding/json"

// AllowLimit is which limit a request is for: the policy of a name, a limit that the
// request brings along, or, being zero, all policies that are for the key.
type AllowLimit struct {
	Name   string
	Inline *InlineLimit // not nil: Name is not used
}

// InlineLimit is a limit that a request brings along.
type InlineLimit struct {
	_         struct{} `additionalProperties:"false"`
	Name      string   `json:"name,omitempty" maxLength:"64" doc:"By which what keys have used is kept. Default: inline/, the algorithm and the period."`
	N         uint64   `json:"n" minimum:"1" doc:"How many per period."`
	Per       Period   `json:"per"`
	Burst     uint64   `json:"burst,omitempty" minimum:"1" doc:"How many at once. Default n."`
	Algorithm string   `json:"algorithm,omitempty" enum:"window,fixed,gcra" default:"window"`
}

// MarshalJSON writes a name as a text, a limit as an object.
func (l AllowLimit) MarshalJSON() ([]byte, error) {
	if l.Inline != nil {
		return json.Marshal(l.Inline)
	}
	return json.Marshal(l.Name)
}

// UnmarshalJSON reads either.
func (l *AllowLimit) UnmarshalJSON(b []byte) error {
	*l = AllowLimit{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &l.Name)
	}
	return json.Unmarshal(b, &l.Inline)
}

// Costs are what policies with a cost take of a request in place of its n.
type Costs map[string]uint64
