package api

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// Problem is the body of every answer that is not a success: an RFC 9457
// document of the type about:blank, so Title is the phrase of the status.
type Problem struct {
	Title  string `json:"title" example:"Bad Request"`
	Status int    `json:"status" example:"400"`
	Code   Code   `json:"code" example:"invalid_window" doc:"Stable name of the failure, to branch on."`
	Detail string `json:"detail" doc:"What went wrong here and what to do about it."`
	Field  string `json:"field,omitempty" example:"window" doc:"The parameter or setting at fault."`
	// Missing is set in problems of fresh questions.
	Missing []string `json:"missing,omitempty" doc:"not_fresh: the nodes whose newer hits may be missing."`
	Alarms  []Alarm  `json:"alarms,omitempty" doc:"All that is wrong, in a 503 of /readyz."`
	// HitsAnswer is set in problems of POST /v1/hits only.
	*HitsAnswer
}
