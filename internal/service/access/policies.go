package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/policy"
)

// PolicyFile is the file that policies come from: its path, and the result of the last reading. It is safe for many
// goroutines. A nil PolicyFile stands for no file.
type PolicyFile struct {
	path   string
	reload concurrency.Signal // holds one: a reload that has not begun is for all that ask

	mu  sync.Mutex // guards all below
	now PolicyFileStats
}

// PolicyFileStats are what is known of a PolicyFile.
type PolicyFileStats struct {
	Loaded   time.Time `metric:"weir_policy_loaded_timestamp_seconds" doc:"When the policies in use were read."`
	Loads    uint64    `metric:"weir_policy_reloads_total,result=ok" doc:"Times that the policy file was read, including at the start, by result."`
	Failures uint64    `metric:"weir_policy_reloads_total,result=failed"`
	// Trouble says why the newest file is not in use; "": it is.
	Trouble string    `metric:"weir_policy_file_bad" doc:"1 while the newest policy file is invalid or unreadable; the previous policies apply."`
	Since   time.Time // of Trouble
}

// ReadPolicyFile reads the file for the first time. A node does not start with one that is
// wrong: it would let pass what should be limited. With the path "" both results are nil.
func ReadPolicyFile(path string) (*PolicyFile, *policy.Set, error) {
	if path == "" {
		return nil, nil, nil
	}
	set, err := policy.Load(path)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		return nil, nil, fmt.Errorf("the policy file is wrong:\n%w\ncorrect it ('weir limits check' reads it), or start without --policy", faults)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--policy: %w", err)
	}
	return &PolicyFile{path: path, reload: concurrency.NewSignal(), now: PolicyFileStats{Loaded: time.Now(), Loads: 1}}, set, nil
}

// Reload asks for the file to be read again, soon.
func (f *PolicyFile) Reload() {
	if f != nil {
		f.reload.Raise()
	}
}

// Watch puts the file's policies into live whenever it changes, and at Reload, on a goroutine of its own until ctx
// ends. ended returns when that has.
func (f *PolicyFile) Watch(ctx context.Context, live *admit.Live, log *slog.Logger) (ended func()) {
	var watching sync.WaitGroup
	if f != nil {
		f.logUse(live, log)
		watching.Go(func() {
			live.Watch(ctx, f.path, f.reload, func(err error) {
				f.note(err)
				f.logReload(live, log, err)
			})
		})
	}
	return watching.Wait
}

// note notes that the file was read again; err says why its policies are not in use, nil that they are.
func (f *PolicyFile) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.now.Failures++
		f.now.Trouble, f.now.Since = err.Error(), time.Now()
		return
	}
	f.now.Loads++
	f.now.Loaded, f.now.Trouble = time.Now(), ""
}

func (f *PolicyFile) logUse(live *admit.Live, log *slog.Logger) {
	set := live.Set()
	log.Info("policies are in use", "file", f.path, "policies", set.Len()+len(set.Concurrencies()))
	for _, w := range set.Warnings(f.path) {
		log.Warn("policy file", "problem", w.String())
	}
}

// logReload tells of a file that was read again: each fault in a line of its own.
func (f *PolicyFile) logReload(live *admit.Live, log *slog.Logger, err error) {
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			log.Error("policy file", "problem", line)
		}
		return
	}
	f.logUse(live, log)
	for _, d := range live.Dropped() {
		log.Warn("a policy that keys have used is no longer in the file, so it no longer limits them. Put it back if you removed it by mistake",
			"file", f.path, "policy", d.Name, "keys_in_use", d.KeysInUse)
	}
}

// Stats are what is known of the file now.
func (f *PolicyFile) Stats() PolicyFileStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Alarms say that the limits in use are not those that were written last.
func (f *PolicyFile) Alarms() []api.Alarm {
	if f == nil || f.Stats().Trouble == "" {
		return nil
	}
	return []api.Alarm{{Code: "policy_file_bad", Message: "the newest policy file is invalid or unreadable, and the previous policies apply: weir limits and the server's log say why"}}
}

// State is Stats as an answer has it; nil: there is no file.
func (f *PolicyFile) State() *api.PolicyFileState {
	if f == nil {
		return nil
	}
	now := f.Stats()
	s := &api.PolicyFileState{Path: f.path, LoadedAt: api.Time{Time: now.Loaded.Truncate(time.Second)}, Error: now.Trouble}
	if now.Trouble != "" {
		s.ErrorAt = &api.Time{Time: now.Since.Truncate(time.Second)}
	}
	return s
}

// Document keeps one small document that all nodes share: in a bucket of JetStream (kv.Document), or in memory.
type Document interface {
	// Read returns the newest content, nil if there is none, and its revision.
	Read(ctx context.Context) (content []byte, revision uint64, err error)
	// Write replaces the content of a revision. written is false if another has written since.
	Write(ctx context.Context, content []byte, over uint64) (written bool, err error)
	// Follow calls look when another node may have written, until ctx ends.
	Follow(ctx context.Context, look func())
}

// errChanged is returned where other writers came first, again and again.
var errChanged = &api.Error{Code: api.CodeOverloaded, Message: "the policy was not changed, because other changes kept coming first: try again"}

// KeptPolicies are the policies that were put by API: kept in a document that all nodes share, in use in addition to
// the file's. It is safe for many goroutines. A nil one stands for a server that takes none.
type KeptPolicies struct {
	store Document
	live  *admit.Live
	first bool // of a name that the file has too, it is in use, and not the file's
	log   *slog.Logger

	using sync.Mutex // held while a book is put in use
	open  bool       // the book of the start is in use: bans of policies that come and go are lifted

	mu       sync.Mutex // guards all below
	book     admit.StoredPolicies
	wrong    map[string]string // why a policy of the book is not in use, by name
	trouble  string            // why the newest book is not in use, or not known; "": it is
	revision uint64
	changes  uint64
}

type KeptPolicy struct {
	admit.StoredPolicy
	Unused string // why it is not in use; "": it is
}

// KeptStats are figures of KeptPolicies, for metrics.
type KeptStats struct {
	Used    int    `metric:"weir_kept_policies,used=yes" doc:"Policies set by API, by whether this node uses them."`
	Unused  int    `metric:"weir_kept_policies,used=no"`
	Version uint64 `metric:"weir_kept_policies_version" doc:"Version of the newest change to policies by API that this node has. All nodes have the same."`
	Changes uint64 `metric:"weir_kept_policies_changes_total" doc:"Changes to policies by API that this node made."`
	Bad     bool   `metric:"weir_kept_policies_bad" doc:"1 while this node can't use or fetch a policy set by API."`
}

// OpenKept reads the policies that were put by API, and puts them in use. Where the file has the same name, the API's
// goes before it if first is set. With a nil store they are kept in memory. A node does not start while it can't know
// them: it would let pass what should be limited.
func OpenKept(ctx context.Context, store Document, live *admit.Live, first bool, log *slog.Logger) (*KeptPolicies, error) {
	if store == nil {
		store = &inMemory{}
	}
	k := &KeptPolicies{store: store, live: live, first: first, log: log}
	if err := k.look(ctx); err != nil {
		return nil, fmt.Errorf("the policies that were put by API can't be read: %w", err)
	}
	k.open = true
	if n := len(k.book.Policies); n > 0 {
		log.Info("policies set by API are in use", "policies", n-len(k.wrong), "version", k.book.Last)
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
		k.log.Error("could not fetch or use the newest policies set by API; the previous ones apply", "error", err)
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
	book, err := admit.ReadStoredPolicies(data)
	if err != nil {
		return err
	}
	wrong := map[string]string{}
	sets := make([]*policy.Set, 0, len(book.Policies))
	for _, p := range book.Policies {
		set, err := k.parse(p.Name, p.Text, p.Version)
		if err != nil { // another version of Weir, or another setting of its node, took it
			wrong[p.Name] = err.Error()
			k.log.Error("a policy set by API is not in use", "policy", p.Name, "version", p.Version, "error", err)
			continue
		}
		sets = append(sets, set)
	}
	before := k.live.Set()
	if err := k.live.Keep(policy.Join(sets...), k.first); err != nil {
		return err
	}
	if k.open {
		k.liftBans(before, book)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.book, k.wrong, k.trouble, k.revision = book, wrong, "", revision
	return nil
}

// liftBans lifts the bans of policies that are not in use any more, and of policies that are newly in use. A node that
// had not learned that the one before was deleted may have banned keys. Each node lifts the bans that it knows. The
// caller holds using.
func (k *KeptPolicies) liftBans(before *policy.Set, book admit.StoredPolicies) {
	k.mu.Lock()
	names := map[string]bool{}
	for _, p := range slices.Concat(k.book.Policies, book.Policies) {
		names[p.Name] = true
	}
	k.mu.Unlock()
	now := k.live.Set()
	for name := range names {
		_, was := before.VersionOf(name)
		if _, is := now.VersionOf(name); was == is {
			continue
		}
		if err := k.live.LiftBans(name); err != nil {
			k.log.Warn("could not lift the bans of a deleted policy: lift them with weir limits unban", "policy", name, "error", err)
		}
	}
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

// Check fails for a policy that can't be put: policy.Faults, ErrInFile, or a *engine.Error of what this node can't do. The set has it alone.
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
func (k *KeptPolicies) change(ctx context.Context, edit func(admit.StoredPolicies) (admit.StoredPolicies, error)) error {
	pause := firstPause
	for range writeTries {
		data, revision, err := k.store.Read(ctx)
		if err != nil {
			return err
		}
		book, err := admit.ReadStoredPolicies(data)
		if err != nil {
			return err
		}
		if book, err = edit(book); err != nil {
			return err
		}
		written, err := k.store.Write(ctx, book.Bytes(), revision)
		if err == nil && !written {
			if concurrency.Sleep(ctx, pause/2+rand.N(pause)) != nil {
				return errChanged
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
		if err := k.look(ctx); err != nil { // each node that can use the change does; this one notes why it can't
			k.note(err)
		}
		return nil
	}
	return errChanged
}

// Put puts a policy that was checked in place of the one of its name. It is in use on this node when Put returns, and
// on others a moment later. p has its version and time then. The error wraps admit.ErrPolicyVersion, admit.ErrFull or
// is an *api.Error, or says why it can't be written.
func (k *KeptPolicies) Put(ctx context.Context, p *admit.StoredPolicy, want admit.PolicyCondition) (isNew bool, err error) {
	err = k.change(ctx, func(b admit.StoredPolicies) (admit.StoredPolicies, error) {
		p.At = time.Now().UTC().Truncate(time.Millisecond)
		_, there := b.Find(p.Name)
		isNew = !there
		return b.Put(p, want)
	})
	return isNew, err
}

// Delete removes a policy, as Put puts one. What keys have used of it stays for a while, in case it is put again. The error may
// also wrap admit.ErrUnknown.
func (k *KeptPolicies) Delete(ctx context.Context, name string, want admit.PolicyCondition) (gone admit.StoredPolicy, err error) {
	err = k.change(ctx, func(b admit.StoredPolicies) (next admit.StoredPolicies, err error) {
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
		one := KeptPolicy{StoredPolicy: p, Unused: k.wrong[p.Name]}
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
	st := KeptStats{Version: version, Bad: len(k.Alarms()) > 0}
	for _, p := range list {
		if p.Unused != "" {
			st.Unused++
		} else {
			st.Used++
		}
	}
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
	return []api.Alarm{{Code: "kept_policies_bad", Message: "this node can't use or fetch policies set by API: weir policies and the server's log say why"}}
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

func (m *inMemory) Write(_ context.Context, content []byte, over uint64) (written bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if over != m.revision {
		return false, nil
	}
	m.content, m.revision = content, m.revision+1
	return true, nil
}

func (m *inMemory) Follow(ctx context.Context, _ func()) { <-ctx.Done() }
