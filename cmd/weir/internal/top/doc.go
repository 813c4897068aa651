// Package top draws what a server counts on a terminal: `weir top`, a full screen of keys, limits and nodes, and
// `weir watch`, lines of a few keys.
//
// Its invariants: it asks for one view at a time (weir watch: one for each key), as the pages of the dashboard do, and
// so costs a server no more than one page; a name never moves the cursor, whatever is in it; it fits 80 columns by
// 24 lines, and any more. Neighbours: package client streams the views.
package top
