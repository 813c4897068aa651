// Package leased decides limits at the node that is asked, within parts of them that the node that
// decides for all has lent to it: package limit/grant says why they are never exceeded.
//
// A Leased is both sides. As the node that is asked it keeps a grant.Credit of each key that it was
// asked for lately: Take decides by these, Decide asks the holder where that can't be. As the
// holder (strict.Lender) it keeps a grant.Book of each key of which anything is out, for the groups
// whose leases package strict has. What it lends is in the journal before it is told.
package leased
