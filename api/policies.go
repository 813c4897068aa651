package api

// PoliciesAnswer is the policies that were put by API.
type PoliciesAnswer struct {
	Version  uint64       `json:"version" doc:"Of the newest change to any of them; 0: there was none."`
	Policies []KeptPolicy `json:"policies" nullable:"false" doc:"By name."`
}

// KeptPolicy is a policy that was put by API.
type KeptPolicy struct {
	Name    string `json:"name" example:"login"`
	Version uint64 `json:"version" doc:"Rises with each change, of all nodes, and is never used twice; also the ETag." example:"7"`
	Policy  string `json:"policy" doc:"Its fields, as they were put."`
	By      string `json:"by" doc:"Who put it: an identity, or anybody of a server that is not locked." example:"ops"`
	At      Time   `json:"at" doc:"When."`
	InUse   bool   `json:"in_use"`
	Why     string `json:"why,omitempty" doc:"Why it is not in use on the node that answers."`
}

// PutAnswer is a policy as it is now.
type PutAnswer struct {
	KeptPolicy
	New bool `json:"new" doc:"No policy of the name had been put, or it had been deleted."`
}

// DeletedPolicy is a policy that is gone.
type DeletedPolicy struct {
	Name    string `json:"name" example:"login"`
	Version uint64 `json:"version" doc:"That it had."`
}
