// Package cli is what the commands of weir have in common: what they see of the outside (World), how
// they run and fail (Work, Usage), types of flags, arguments that are named in errors, the flags of commands that talk to a
// server (Remote, Login), tables for people, and what the shell completes.
//
// Invariant: an error that a command returns is one of usage if it comes from Usage or names a setting, and one of the
// work itself otherwise; IsFailure tells them apart, for the exit code.
//
// Neighbours: package settings resolves the flags; package main and package limits have the commands.
package cli
