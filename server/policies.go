package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
)

// NamedPolicy is the name of a policy in a path. It is exported for huma, and embedded in questions.
type NamedPolicy struct {
	Name string `path:"name" doc:"The policy's name; its slashes may be raw or percent-encoded." example:"login"`
}

// PolicyCondition is the version that a change to a policy is for. It is exported for huma, and embedded in questions.
type PolicyCondition struct {
	IfMatch string `header:"If-Match" doc:"The change is made only if the policy has this version, its ETag." example:"\"7\""`
}

type putPolicyQuestion struct {
	NamedPolicy
	PolicyCondition
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"The policy is put only if none of its name was put before: *."`
	RawBody     []byte `contentType:"application/yaml"`
}

type deletePolicyQuestion struct {
	NamedPolicy
	PolicyCondition
}

type (
	putPolicyOutput struct {
		Status int
		ETag   string `header:"ETag"`
		Body   api.PutAnswer
	}
	policyOutput struct {
		ETag string `header:"ETag"`
		Body api.KeptPolicy
	}
	policiesOutput      struct{ Body api.PoliciesAnswer }
	deletedPolicyOutput struct{ Body api.DeletedPolicy }
)

const putPolicyDescription = `The body is one policy with the fields of an entry of the policy file, in YAML or JSON: ` + "`{\"keys\":\"login:{user}:*\",\"limit\":5,\"per\":\"1m\"}`" + `. It stands in place of
the one of its name that was put before, in use on the node that answers at once, on the other nodes of a cluster a moment later, after a restart, and on nodes that join. What keys have used stays. A policy that
the file could not have is refused with ` + "`invalid_policy`" + ` and all that is wrong, by line. Where the file has one of the name, it is refused with ` + "`policy_in_file`" + `, or goes before the file's (--policies-api).
Of two writers who change the same version (If-Match), one wins; the other is told ` + "`version_mismatch`" + `.`

func (s *Server) registerPolicies(doc *openapi.API) {
	changing := []api.Code{api.CodeNoPoliciesAPI, api.CodeVersionMismatch, api.CodeNotDurable, api.CodeUnknownParameter}
	openapi.Ask(doc, huma.Operation{
		OperationID: "put-policy", Method: http.MethodPut, Path: "/v1/policies/{name}", Summary: "Put a policy", Description: putPolicyDescription, MaxBodyBytes: service.MaxPolicyText,
		DefaultStatus: http.StatusOK,
	}, append(changing, api.CodeInvalidPolicy, api.CodePolicyInFile, api.CodePoliciesFull, api.CodeBodyTooLarge), func(ctx context.Context, q *putPolicyQuestion) (*putPolicyOutput, error) {
		want, err := q.condition()
		if err != nil {
			return nil, err
		}
		want.New = q.IfNoneMatch != ""
		answer, err := s.service.PutPolicy(ctx, callerOf(ctx), q.Name, string(q.RawBody), want)
		out := &putPolicyOutput{Status: http.StatusOK, ETag: etag(answer.Version), Body: answer}
		if answer.New {
			out.Status = http.StatusCreated
		}
		return out, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "get-policy", Method: http.MethodGet, Path: "/v1/policies/{name}", Summary: "A policy that was put",
		Description: "As the node that is asked knows it. Policies of the file are at /v1/limits.",
	}, []api.Code{api.CodeNoPoliciesAPI, api.CodeUnknownLimit, api.CodeUnknownParameter}, func(ctx context.Context, q *NamedPolicy) (*policyOutput, error) {
		answer, err := s.service.Policy(callerOf(ctx), q.Name)
		return &policyOutput{etag(answer.Version), answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "list-policies", Method: http.MethodGet, Path: "/v1/policies", Summary: "The policies that were put",
		Description: "As the node that is asked knows them. Policies of the file are at /v1/limits.",
	}, []api.Code{api.CodeNoPoliciesAPI, api.CodeUnknownParameter}, func(ctx context.Context, _ *struct{}) (*policiesOutput, error) {
		answer, err := s.service.Policies(callerOf(ctx))
		return &policiesOutput{answer}, problem.OrNil(err)
	})
	openapi.Ask(doc, huma.Operation{
		OperationID: "delete-policy", Method: http.MethodDelete, Path: "/v1/policies/{name}", Summary: "Delete a policy that was put",
		Description: "Nothing limits its keys by it any more, unless the file has one of its name. What keys have used of it stays for a while, for one that is put again.",
	}, append(changing, api.CodeUnknownLimit), func(ctx context.Context, q *deletePolicyQuestion) (*deletedPolicyOutput, error) {
		want, err := q.condition()
		if err != nil {
			return nil, err
		}
		answer, err := s.service.DeletePolicy(ctx, callerOf(ctx), q.Name, want)
		return &deletedPolicyOutput{answer}, problem.OrNil(err)
	})
}

func etag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

// condition reads If-Match.
func (c *PolicyCondition) condition() (want service.PolicyVersion, err error) {
	if c.IfMatch == "" {
		return want, nil
	}
	want.Version, err = strconv.ParseUint(strings.Trim(c.IfMatch, `"`), 10, 64)
	if err != nil || want.Version == 0 {
		return want, problem.New(api.CodeInvalidParameter, "If-Match", "If-Match: "+service.Clip(c.IfMatch)+`: write the version that the policy must have, as its ETag has it: "7"`)
	}
	return want, nil
}
