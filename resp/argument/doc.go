// Package argument reads the arguments of commands: numbers, durations, lifetimes of counters, words in any case; and has the errors
// that are written as replies.
//
// Invariant: what it returns keeps no part of an argument, but for View, which says so.
package argument
