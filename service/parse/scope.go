package parse

import (
	"fmt"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/service/failure"
)

// Scope says whose hits a question is about.
type Scope string

// The scopes.
const (
	Node   Scope = "node"   // those that the node holds which is asked: no other is
	Region Scope = "region" // those of its region: a server, or a cluster
	Global Scope = "global" // and those of all other regions that are known
)

// ScopeOf reads a scope; "" is none.
func ScopeOf(text string) (Scope, error) {
	switch s := Scope(text); s {
	case "", Node, Region, Global:
		return s, nil
	}
	return "", &failure.Error{Code: api.CodeInvalidParameter, Field: "scope", Message: fmt.Sprintf("scope must be %s, %s or %s", Node, Region, Global)}
}

// ByRegion reads what an answer is to be split by: "" is nothing, else it must be region.
func ByRegion(text string) (bool, error) {
	switch text {
	case "":
		return false, nil
	case "region":
		return true, nil
	}
	return false, &failure.Error{Code: api.CodeInvalidParameter, Field: "by", Message: "by must be region"}
}
