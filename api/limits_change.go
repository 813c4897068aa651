package api

// ResetAnswer is what came of forgetting what a key has used of a limit.
type ResetAnswer struct {
	Name      string `json:"name" example:"login"`
	Key       string `json:"key" doc:"As it is counted." example:"login:bob"`
	Was       bool   `json:"was" doc:"There was something to forget, as far as the node that did it knows."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}

// GrantAnswer is a grant as it is now.
type GrantAnswer struct {
	Name      string `json:"name" example:"login"`
	Key       string `json:"key" doc:"As it is counted." example:"login:bob"`
	N         uint64 `json:"n" doc:"How many are granted beside the limit; 0: none any more."`
	Until     *Time  `json:"until,omitempty" doc:"When what is left of them is over; absent when there are none."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now, the grant included."`
}

// RefundAnswer is what came of giving admissions back.
type RefundAnswer struct {
	Refunded uint64        `json:"refunded" doc:"By how many more would be allowed: the least of the limits."`
	Limits   []LimitRefund `json:"limits" nullable:"false" doc:"What came of each limit, as in the answer to the request that took."`
}

// LimitRefund is what came of giving admissions of one limit back.
type LimitRefund struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"As it is counted." example:"team:7"`
	Refunded  uint64 `json:"refunded" doc:"By how many more would be allowed: fewer than n where some have left the window, or the bucket has filled since."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}
