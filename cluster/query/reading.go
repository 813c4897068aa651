package query

// Reading asks questions that are answered only by nodes that have applied the journal
// up to a message.
type Reading struct {
	*Router
	upTo uint64 // 0: as far as they are
}

// After is for questions whose answers must have all up to a message of the journal,
// which this node has applied (journal.Journal.Fresh). Where no holder has it in time,
// the error is CodeNotFresh.
func (r *Router) After(upTo uint64) Reading { return Reading{r, upTo} }
