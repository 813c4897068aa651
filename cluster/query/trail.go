package query

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-counter/weir"
)

// trail is whom a question was put to, and why that was in vain: the last reason of
// each node.
type trail []step

type step struct {
	node string
	why  error
}

func (t *trail) add(node string, why error) {
	for i := range *t {
		if (*t)[i].node == node {
			(*t)[i].why = why
			return
		}
	}
	*t = append(*t, step{node, why})
}

// out notes that the time was over before a node answered, if nothing is known of it.
func (t *trail) out(node string) {
	for _, s := range *t {
		if s.node == node {
			return
		}
	}
	t.add(node, errSilent)
}

// failed is the error of a question that nobody answered.
func (t trail) failed(partition int) *weir.Error {
	what := fmt.Sprintf("partition %d is held by other nodes, and none of them answered", partition)
	if len(t) == 0 {
		return &weir.Error{Code: weir.CodeNotHeld, Field: "key", Message: fmt.Sprintf("no node that is up holds partition %d: retry in a second", partition)}
	}
	asked, code, field := make([]string, len(t)), weir.CodeNotHeld, "key"
	for i, s := range t {
		asked[i] = s.node + " (" + s.why.Error() + ")"
		if of, ok := errors.AsType[*weir.Error](s.why); ok && of.Code == weir.CodeNotFresh { // it answers, and is behind
			code, field = of.Code, "fresh"
		}
	}
	return &weir.Error{Code: code, Field: field, Message: what + ": asked " + strings.Join(asked, ", ") + "; retry in a second"}
}
