package api

// Alarm is something that is wrong now. It is there for as long as its cause.
type Alarm struct {
	Code     string `json:"code" doc:"Stable name of what is wrong, to branch on."`
	Message  string `json:"message" doc:"What is wrong, and what to do about it."`
	Refusing bool   `json:"refusing,omitempty" doc:"Hits are better off at another node: /readyz is 503."`
}

// Ready is what /readyz answers when requests may be sent.
type Ready struct {
	Status     string  `json:"status"` // ok or degraded
	Alarms     []Alarm `json:"alarms,omitempty"`
	*Freshness         // nil: no cluster
}
