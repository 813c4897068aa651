package auth

import (
	"fmt"
	"slices"
)

// Role is a kind of what may be done.
type Role uint8

// The roles.
const (
	Ingest Role = iota // count hits
	Decide             // ask limits whether a request may pass
	Read               // ask questions: counts, series, top, keys, limits; with all keys also figures of the server
	Admin              // delete, reset, backup and restore, cluster, policies
	roles
)

// Roles are the words of the file, in the order of the constants.
var roleNames = [roles]string{"ingest", "decide", "read", "admin"}

// String is the word of the file.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// RoleNames are the words of all roles.
func RoleNames() []string { return roleNames[:] }

// ParseRole reads the word of a role.
func ParseRole(word string) (Role, bool) {
	at := slices.Index(roleNames[:], word)
	return Role(max(at, 0)), at >= 0
}
