package admit

// warns tells whether a limit that lets a request pass has as much of its burst used as it warns of.
func (r *Result) warns() bool {
	if r.warn == 0 || !r.Allowed || r.Away != "" || r.Remaining >= r.Limit.Burst {
		return false
	}
	used := r.Limit.Burst - r.Remaining
	return used >= r.Limit.Burst/100*uint64(r.warn)+(r.Limit.Burst%100*uint64(r.warn)+99)/100
}
