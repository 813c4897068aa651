// Package access is who calls, and what that one may do. It has two sides: a Gate, where the rooms of a service
// begin each request, and a Service, what doors call to prove who their clients are.
package access
