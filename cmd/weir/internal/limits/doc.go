// Package limits is the command weir limits: what a server's policies decided, what keys have used of them, and a
// policy file checked, tried on an access log, or made of one of envoyproxy/ratelimit.
//
// Neighbours: package cli has what it shares with all commands; package policy reads the files.
package limits
