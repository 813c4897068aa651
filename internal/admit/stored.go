package admit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/wire"
)

// StoredPolicies, the book, are the policies that were put by API: their texts and versions, who put them and when. The book is
// stored as a whole, so that all nodes have the same. This file is pure: other packages know where the book is stored and
// what its texts mean.
//
// Invariant: a version is given once. A policy that is deleted and put again has a version that it never had.

// The bounds of a book.
const (
	MaxStoredPolicies = 2000
	MaxText           = 64 << 10  // bytes of one policy
	MaxBook           = 512 << 10 // bytes of all, as they are stored: half of what a message of NATS can hold
)

// StoredPolicy is one entry of a book.
type StoredPolicy struct {
	Name    string    `json:"name"`
	Version uint64    `json:"version"` // the number of the change that put it, from 1
	Text    string    `json:"text"`    // as package policy reads it
	By      string    `json:"by"`      // who put it
	At      time.Time `json:"at"`      // when, in UTC
}

// StoredPolicies is the book. The zero StoredPolicies has no policies.
type StoredPolicies struct {
	Last     uint64         `json:"last"`     // how many changes there were
	Policies []StoredPolicy `json:"policies"` // by name
}

// PolicyCondition is a condition for a change of a policy. The zero PolicyCondition always holds.
type PolicyCondition struct {
	Version uint64 // the policy has this version; 0: any, or it does not exist
	New     bool   // the policy does not exist
	Share   bool   // its author has at most a Share of all policies
}

// Share is the part of a common bound that one identity that is for some keys only may use. Such bounds are on
// policies, bans, grants, permits, open reservations, and names of inline limits. So one tenant can't use up what the
// others need.
func Share(bound int) int { return bound / 8 }

var (
	// ErrPolicyVersion is the error of a change whose condition does not hold.
	ErrPolicyVersion = errors.New("the policy has another version")

	// ErrUnknown is the error for a policy that does not exist.
	ErrUnknown = errors.New("no policy of that name was put by API")

	// ErrFull is the error if a book can't hold one more policy.
	ErrFull = errors.New("no space")

	errDamaged = errors.New("the policies that were put by API are damaged")
)

const (
	bookMagic   = 'K'
	bookVersion = 1
)

// ReadStoredPolicies reads the bytes of a book. No bytes are an empty book.
func ReadStoredPolicies(data []byte) (b StoredPolicies, err error) {
	if len(data) == 0 {
		return b, nil
	}
	version, content, err := wire.Open(data, bookMagic)
	if err != nil {
		return b, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if version != bookVersion {
		return b, fmt.Errorf("the policies that were put by API are stored in version %d: this build reads version %d", version, bookVersion)
	}
	if err := json.Unmarshal(content.Rest(), &b); err != nil {
		return StoredPolicies{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return b, nil
}

// Bytes returns the book as ReadStoredPolicies reads it.
func (b StoredPolicies) Bytes() []byte {
	content, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts, numbers and times of this millennium
	}
	return wire.Seal(append([]byte{bookMagic, bookVersion}, content...), 0)
}

// Find returns the policy of a name.
func (b StoredPolicies) Find(name string) (StoredPolicy, bool) {
	at, ok := b.find(name)
	if !ok {
		return StoredPolicy{}, false
	}
	return b.Policies[at], true
}

func (b StoredPolicies) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(b.Policies, name, func(p StoredPolicy, name string) int { return strings.Compare(p.Name, name) })
}

// check fails with ErrPolicyVersion unless a condition holds for the policy of a name.
func (b StoredPolicies) check(name string, want PolicyCondition) error {
	have, ok := b.Find(name)
	switch {
	case want.New && ok:
		return fmt.Errorf("%w: %s is there, in version %d", ErrPolicyVersion, name, have.Version)
	case want.Version != 0 && !ok:
		return fmt.Errorf("%w: %s is not there, and version %d was asked for", ErrPolicyVersion, name, want.Version)
	case want.Version != 0 && want.Version != have.Version:
		return fmt.Errorf("%w: %s has version %d, and version %d was asked for", ErrPolicyVersion, name, have.Version, want.Version)
	}
	return nil
}

// Put returns a book with p in place of the policy of its name, under a new version, which it fills in. The error wraps
// ErrPolicyVersion or ErrFull.
func (b StoredPolicies) Put(p *StoredPolicy, want PolicyCondition) (StoredPolicies, error) {
	if err := b.check(p.Name, want); err != nil {
		return b, err
	}
	next := StoredPolicies{Last: b.Last + 1, Policies: slices.Clone(b.Policies)}
	p.Version = next.Last
	at, ok := next.find(p.Name)
	if ok {
		next.Policies[at] = *p
	} else {
		next.Policies = slices.Insert(next.Policies, at, *p)
	}
	own, bytes := 0, 0
	for _, other := range next.Policies {
		if other.By == p.By {
			own, bytes = own+1, bytes+len(other.Text)
		}
	}
	switch {
	case want.Share && (own > Share(MaxStoredPolicies) || bytes > Share(MaxBook)):
		return b, fmt.Errorf("%w: %s has %d policies of %d bytes; an identity that is for some keys only has at most %d of %d bytes: delete some, or write one for more keys", ErrFull, p.By, own, bytes, Share(MaxStoredPolicies), Share(MaxBook))
	case len(next.Policies) > MaxStoredPolicies:
		return b, fmt.Errorf("%w: %d policies are kept, which is the most: a pattern like \"user:*\" is one policy for all users", ErrFull, MaxStoredPolicies)
	case len(next.Bytes()) > MaxBook:
		return b, fmt.Errorf("%w: all policies together have at most %d KiB as they are stored: delete some, or shorten their overrides", ErrFull, MaxBook>>10)
	}
	return next, nil
}

// Delete returns a book without a policy, and the policy. The error wraps ErrPolicyVersion or ErrUnknown.
func (b StoredPolicies) Delete(name string, want PolicyCondition) (StoredPolicies, StoredPolicy, error) {
	if err := b.check(name, want); err != nil {
		return b, StoredPolicy{}, err
	}
	at, ok := b.find(name)
	if !ok {
		return b, StoredPolicy{}, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	gone := b.Policies[at]
	return StoredPolicies{Last: b.Last + 1, Policies: slices.Delete(slices.Clone(b.Policies), at, at+1)}, gone, nil
}

// Restore returns the book after a restore of a backup that has the book from. With replace it has the policies of the
// backup. Else it has its own policies, and the policies of the backup that have other names. Restored policies get new
// versions here: a client that knows an earlier version must read the policy again.
func (b StoredPolicies) Restore(from StoredPolicies, replace bool) (StoredPolicies, error) {
	next := StoredPolicies{Last: max(b.Last, from.Last)}
	if !replace {
		next.Policies = b.Policies
	}
	for _, p := range from.Policies {
		if _, there := next.Find(p.Name); there {
			continue
		}
		var err error
		if next, err = next.Put(&p, PolicyCondition{New: true}); err != nil {
			return b, err
		}
	}
	return next, nil
}
