package grant_test

import (
	"testing"
	"time"

	"github.com/weir-counter/weir/internal/cluster/grant"
	"github.com/weir-counter/weir/limit"
)

// While a node has a grant of one limit, another limit of the same name gets none from the same book, so that what is
// out is not counted as used with each change between them.
func TestTwoLimitsOfOneName(t *testing.T) {
	t.Parallel()
	terms := grant.TermsOf(limit.Limit{N: 10_000, Per: time.Hour, Burst: 10_000})
	b := new(grant.Book)
	basis := func(at time.Duration) grant.Basis {
		return grant.Basis{Now: int64(time.Hour + at), Node: "n1", Token: 1, Terms: terms}
	}
	first := &grant.Ask{ID: grant.ID{Number: 1}, Want: 50, Demand: 50}
	b.Settle(basis(0), first, func(int64, uint64) {})
	made := b.Grant(basis(0), first, grant.Decided{Allowed: true, Free: 10_000})
	if made.Granted == 0 {
		t.Fatalf("nothing is granted: %+v", made)
	}
	if b.GrantedOther(basis(0).Now, "n1", 1) || !b.GrantedOther(basis(0).Now, "n1", 2) || b.GrantedOther(basis(0).Now, "n2", 2) {
		t.Error("the grant is of another node or number")
	}
	if after := basis(time.Minute); b.GrantedOther(after.Now, "n1", 2) {
		t.Error("a grant that is over is in the way")
	}
}
