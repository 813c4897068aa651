// Package parse reads what requests say as text, the same at every door: keys, counts and times of hits; windows, times and
// waits of questions.
//
// Invariant: it is pure. Of a hit it returns a *Rejection, which allocates nothing; of a question a *failure.Error that names
// the field.
package parse
