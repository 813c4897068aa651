package api

// Freshness says how much of the newest hits is in an answer. Like Bounds it is
// embedded in answers.
type Freshness struct {
	AsOf   Time     `json:"as_of" doc:"All hits that any node took until then are counted in this answer. A server alone has all: it says now."`
	Untold []string `json:"untold,omitempty" doc:"Regions that do not tell others such keys (their --region-keys): their hits are missing, so the answer is a lower bound, and has no upper one. Absent when there are none."`
	Late   []Late   `json:"late,omitempty" doc:"Nodes that were not heard of for more than 3 s: the answer is a lower bound of what all have counted, and has no upper one. Absent when there are none."`
}

// Late is a node of which hits may be missing: it is not heard of, or lags.
type Late struct {
	Node  string `json:"node"`
	Since Time   `json:"since" doc:"Its hits until then are counted in this answer."`
}
