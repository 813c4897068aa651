// Package views puts together what the pages of the dashboard show, of what package service answers. A
// view is one answer, whole, so that a page needs to know nothing of those before.
//
// Its invariants: a view has a bound of its own, whatever there is of keys, policies and nodes; and
// what a caller may not read is not in it. Neighbours: package board computes a view once for
// all pages that show it; doors send it.
package views
