// Package files is the files that a service follows while it runs: who may do what (Tokens), and which
// limits requests have (PolicyFile, and KeptPolicies, which were put by API): read, read again when they change, and what became of it.
//
// Invariants: a node does not start with a file that is wrong; one that becomes wrong later leaves
// what was read before in use, and raises an alarm until it is put right.
//
// Packages auth and policy read the contents and put them in use. Package node starts and ends the
// watching; package service says what is wrong.
package files
