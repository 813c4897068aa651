// Package origin keeps web pages of strangers from using a server through the browsers of
// those who can reach it: requests for a foreign Host, and those that a page of another
// site sends, are refused.
//
// Its invariant: no page learns an answer, or makes the server do anything, unless its
// origin is the server's own or allowed. Neighbours: package server puts it in front of all handlers.
package origin
