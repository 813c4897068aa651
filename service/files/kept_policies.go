package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/policy/kept"
	"github.com/weir-counter/weir/service/backend"
)

// KeptPolicies are the policies that were put by API: kept in a document that all nodes share, in use beside those of the file. It is
// safe for many goroutines. A nil one stands for a server that takes none.
type KeptPolicies struct {
	store backend.Document
	live  *admit.Live
	first bool // of a name that the file has too, it is in use, and not the file's
	log   *slog.Logger

	using sync.Mutex // held while a book is put in use

	mu       sync.Mutex // guards all below
	book     kept.Book
	wrong    map[string]string // why a policy of the book is not in use, by name
	trouble  string            // why the newest book is not in use, or not known; "": it is
	revision uint64
	changes  uint64
}

// KeptPolicy is one of them.
type KeptPolicy struct {
	kept.Policy
	Unused string // why it is not in use; "": it is
}

// KeptStats are figures of KeptPolicies, for metrics.
type KeptStats struct {
	Policies, Unused int
	Version          uint64 // of the newest change
	Changes          uint64 // that were made at this node since the start
	Bad              bool   // see Alarms
}

// OpenKept reads the policies that were put by API, and puts them in use; of a name that the file has too, that of the API if it is
// first. With a nil store they are kept in memory. A node does not start while it can't know them: it would let pass what should be
// limited.
func OpenKept(ctx context.Context, store backend.Document, live *admit.Live, first bool, log *slog.Logger) (*KeptPolicies, error) {
	if store == nil {
		store = &inMemory{}
	}
	k := &KeptPolicies{store: store, live: live, first: first, log: log}
	if err := k.look(ctx); err != nil {
		return nil, fmt.Errorf("the policies that were put by API can't be read: %w", err)
	}
	if n := len(k.book.Policies); n > 0 {
		log.Info("policies that were put by API are in use", "policies", n-len(k.wrong), "version", k.book.Last)
	}
	return k, nil
}

// Watch puts in use what other nodes put, on a goroutine of its own until ctx ends. ended returns when that has.
func (k *KeptPolicies) Watch(ctx context.Context) (ended func()) {
	var watching sync.WaitGroup
	if k != nil {
		watching.Go(func() {
			k.store.Follow(ctx, func() {
				if err := k.look(ctx); err != nil && ctx.Err() == nil {
					k.note(err)
				}
			})
		})
	}
	return watching.Wait
}

// note notes why the newest book is not in use.
func (k *KeptPolicies) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trouble != err.Error() {
		k.log.Error("the newest policies that were put by API are not known or not in use; those before them are", "error", err)
	}
	k.trouble = err.Error()
}

// look reads the book, and puts it in use if it is another than the one that is.
func (k *KeptPolicies) look(ctx context.Context) error {
	data, revision, err := k.store.Read(ctx)
	if err != nil {
		return err
	}
	k.using.Lock()
	defer k.using.Unlock()
	k.mu.Lock()
	known := revision < k.revision || revision == k.revision && k.trouble == ""
	k.mu.Unlock()
	if known {
		return nil
	}
	book, err := kept.Read(data)
	if err != nil {
		return err
	}
	wrong := map[string]string{}
	sets := make([]*policy.Set, 0, len(book.Policies))
	for _, p := range book.Policies {
		set, err := k.parse(p.Name, p.Text, p.Version)
		if err != nil { // another version of Weir, or another setting of its node, took it
			wrong[p.Name] = err.Error()
			k.log.Error("a policy that was put by API is not in use", "policy", p.Name, "version", p.Version, "error", err)
			continue
		}
		sets = append(sets, set)
	}
	if err := k.live.Keep(policy.Join(sets...), k.first); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.book, k.wrong, k.trouble, k.revision = book, wrong, "", revision
	return nil
}

func (k *KeptPolicies) parse(name, text string, version uint64) (*policy.Set, error) {
	set, err := policy.ParsePolicy(name, []byte(text), version)
	if err == nil {
		err = k.live.Fits(set)
	}
	return set, err
}

// ErrInFile is for a policy that the file has too, which goes first.
var ErrInFile = errors.New("the policy file has it")

// Check fails for a policy that can't be put: policy.Faults, ErrInFile, or a *weir.Error of what this node can't do. The set has it alone.
func (k *KeptPolicies) Check(name, text string) (*policy.Set, error) {
	set, err := k.parse(name, text, 0)
	if err != nil {
		return nil, err
	}
	if version, there := k.live.Set().VersionOf(name); there && version == 0 && !k.first {
		return nil, fmt.Errorf("%w: %s", ErrInFile, name)
	}
	return set, nil
}

// A change that another one came before is made anew, after a pause: a change that is under way is in the way of others before it can be
// read.
const (
	writeTries = 20
	firstPause = 2 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// change makes a change to the newest book, on all nodes. The change may be made several times, each time to another book.
func (k *KeptPolicies) change(ctx context.Context, of func(kept.Book) (kept.Book, error)) error {
	pause := firstPause
	for range writeTries {
		data, revision, err := k.store.Read(ctx)
		if err != nil {
			return err
		}
		book, err := kept.Read(data)
		if err != nil {
			return err
		}
		if book, err = of(book); err != nil {
			return err
		}
		err = k.store.Write(ctx, book.Bytes(), revision)
		if errors.Is(err, backend.ErrChanged) {
			select {
			case <-ctx.Done():
				return backend.ErrChanged
			case <-time.After(pause/2 + rand.N(pause)):
			}
			pause = min(2*pause, mostPause)
			continue
		}
		if err != nil {
			return err
		}
		k.mu.Lock()
		k.changes++
		k.mu.Unlock()
		if err := k.look(ctx); err != nil { // of all nodes, those that can have it
			k.note(err)
		}
		return nil
	}
	return backend.ErrChanged
}

// Put puts a policy that was checked in place of the one of its name, in use on this node when it returns, and on others a moment
// later. p has its version and time then. The error wraps kept.ErrVersion, kept.ErrFull or backend.ErrChanged, or says why it can't be written.
func (k *KeptPolicies) Put(ctx context.Context, p *kept.Policy, want kept.Condition) (isNew bool, err error) {
	err = k.change(ctx, func(b kept.Book) (kept.Book, error) {
		p.At = time.Now().UTC().Truncate(time.Millisecond)
		_, there := b.Find(p.Name)
		isNew = !there
		return b.Put(p, want)
	})
	return isNew, err
}

// Delete takes a policy away, as Put puts it. What keys have used of it stays for a while, for one that is put again. The error may wrap
// kept.ErrUnknown too.
func (k *KeptPolicies) Delete(ctx context.Context, name string, want kept.Condition) (gone kept.Policy, err error) {
	err = k.change(ctx, func(b kept.Book) (next kept.Book, err error) {
		next, gone, err = b.Delete(name, want)
		return next, err
	})
	return gone, err
}

// List is all of them, by name, and the version of the newest change, as this node knows them.
func (k *KeptPolicies) List() (list []KeptPolicy, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.live.Set()
	for _, p := range k.book.Policies {
		one := KeptPolicy{Policy: p, Unused: k.wrong[p.Name]}
		if is, there := set.VersionOf(p.Name); one.Unused == "" && (!there || is != p.Version) {
			one.Unused = cmp.Or(k.trouble, "the policy file has one of this name, which goes first (--policies-api)")
		}
		list = append(list, one)
	}
	return list, k.book.Last
}

// Stats are those figures now.
func (k *KeptPolicies) Stats() KeptStats {
	list, version := k.List()
	st := KeptStats{Policies: len(list), Version: version}
	for _, p := range list {
		if p.Unused != "" {
			st.Unused++
		}
	}
	st.Bad = len(k.Alarms()) > 0
	k.mu.Lock()
	defer k.mu.Unlock()
	st.Changes = k.changes
	return st
}

// Alarms say that policies that were put by API are not in use.
func (k *KeptPolicies) Alarms() []api.Alarm {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trouble == "" && len(k.wrong) == 0 {
		return nil
	}
	return []api.Alarm{{Code: "kept_policies_bad", Message: "policies that were put by API are not in use on this node, or it can't ask for the newest: weir policies and the server's log say why"}}
}

// inMemory is the document of a server that keeps nothing.
type inMemory struct {
	mu       sync.Mutex
	content  []byte
	revision uint64
}

func (m *inMemory) Read(context.Context) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content, m.revision, nil
}

func (m *inMemory) Write(_ context.Context, content []byte, over uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if over != m.revision {
		return backend.ErrChanged
	}
	m.content, m.revision = content, m.revision+1
	return nil
}

func (m *inMemory) Follow(ctx context.Context, _ func()) { <-ctx.Done() }
