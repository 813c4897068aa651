package api

import "time"

// PermitAnswer is a permit that was taken, or renewed.
type PermitAnswer struct {
	ID         string  `json:"id" doc:"Names the permit: for heartbeats, and to give it back."`
	TTLSeconds float64 `json:"ttl_s" doc:"It is free again so long after the last heartbeat: count from when that was sent. A third of it between two is good."`
	Unmatched  bool    `json:"unmatched,omitempty" doc:"No limit with max is for the key: nothing limits how many there are."`
}

// TTL is TTLSeconds as a duration.
func (p PermitAnswer) TTL() time.Duration { return fromSeconds(p.TTLSeconds) }

// ReleaseAnswer is what became of a permit that was given back.
type ReleaseAnswer struct {
	Released bool `json:"released" doc:"false: it was not held, or no longer."`
}

// AtOnceLimit is an entry of the policy file that limits how many are at work at once.
type AtOnceLimit struct {
	Name       string  `json:"name" example:"jobs"`
	Keys       string  `json:"keys" doc:"The keys of requests that it is for." example:"job:{customer}:*"`
	By         string  `json:"by,omitempty" doc:"The key that is counted; absent: the request's own." example:"job:{customer}"`
	Version    uint64  `json:"version,omitempty" doc:"Of a policy that was put by API (/v1/policies); absent: it is of the file." example:"7"`
	Max        int     `json:"max" doc:"How many permits of a key are held at once."`
	TTLSeconds float64 `json:"ttl_s" doc:"After how long a silent holder's permit is free."`
	Held       int     `json:"held" doc:"Permits that are held now, of all keys."`
	HeldKeys   int     `json:"held_keys" doc:"Keys of which permits are held now."`
}
