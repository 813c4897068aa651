// Package ledger is what a region's log says: how far it has the digests of each region, what of them is new, and
// where in the log somebody must begin who has less. Whoever reads the log in its order comes to the same.
//
// Invariants: a digest counts once, as a whole, after those before it in its epoch; an epoch begins with a base (or
// with the end of a region that was forgotten), and never goes back; the running totals of each partition go on
// from digest to digest, and what does not is a finding. Parts of a digest that a writer left unfinished count nowhere.
//
// It is pure: no clock, no network, no engine. Package region has the log, package view the windows.
package ledger
