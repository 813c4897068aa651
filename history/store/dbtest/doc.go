// Package dbtest runs Postgres and MariaDB for tests: real processes in a temporary directory, on
// loopback. One serves all tests of a package (Main), each with a database of its own. A program
// that is missing fails the test with what to install: make test does.
package dbtest
