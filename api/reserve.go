package api

// ReserveAnswer is the answer to POST /v1/reserve: that of POST /v1/allow, and the ID of the reservation.
type ReserveAnswer struct {
	ID    string `json:"id,omitempty" doc:"To settle it by; absent from a denial, and where no limit is for the key."`
	Known bool   `json:"known,omitempty" doc:"The ID was known: nothing more was taken, and limits is empty."`
	AllowAnswer
}

// SettleAnswer is what came of settling a reservation.
type SettleAnswer struct {
	ID     string         `json:"id"`
	Again  bool           `json:"again,omitempty" doc:"It had been settled before: used and over are of then, and nothing has changed now."`
	Over   uint64         `json:"over,omitempty" doc:"How many were used beyond the reservation, and do not count, because a limit has no room for them: the most of the limits."`
	Limits []LimitSettled `json:"limits" nullable:"false"`
}

// LimitSettled is what a reservation had of one limit.
type LimitSettled struct {
	Name      string `json:"name" example:"tokens"`
	Key       string `json:"key" doc:"As it is counted." example:"team:7"`
	Reserved  uint64 `json:"reserved"`
	Used      uint64 `json:"used" doc:"That count as used."`
	Refunded  uint64 `json:"refunded" doc:"By how many more would be allowed for it."`
	Over      uint64 `json:"over,omitempty" doc:"Used beyond the reservation, and not counted: the limit has no room."`
	Remaining uint64 `json:"remaining" doc:"How many would be allowed now."`
}
