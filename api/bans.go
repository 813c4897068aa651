package api

// BanAnswer is a ban: the key is denied until a time, whatever it has used.
type BanAnswer struct {
	Name  string `json:"name" example:"login"`
	Key   string `json:"key" doc:"As it is counted." example:"login:bob"`
	Until Time   `json:"until" doc:"When it is over."`
}

// UnbanAnswer tells of a ban that was lifted.
type UnbanAnswer struct {
	Name string `json:"name" example:"login"`
	Key  string `json:"key" doc:"As it is counted." example:"login:bob"`
	Was  bool   `json:"was" doc:"There was a ban, as far as the node that was asked knew."`
}

// BansAnswer is the keys that are banned now.
type BansAnswer struct {
	Bans []BanAnswer `json:"bans" nullable:"false" doc:"Those whose ban ends last first."`
}
