package access

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/auth"
)

// Invariants: accounts are as many as the file has identities, and an identity that is gone from the file has none. A
// ceiling that stays, lower or higher, grants no fresh allowance when the file is read again.

// Accounts are what identities have used of this node. They are as many as the tokens file has
// identities, and each begins with its first request.
type Accounts struct {
	byName       atomic.Pointer[map[string]*Account]
	adding       sync.Mutex    // held to put another map in the place of byName
	unauthorized atomic.Uint64 // requests of callers that proved no identity
}

// NewAccounts returns one of nobody.
func NewAccounts() *Accounts {
	a := new(Accounts)
	a.byName.Store(&map[string]*Account{})
	return a
}

// Account is what one identity has used.
type Account struct {
	name string
	is   atomic.Pointer[auth.Identity] // as the file was when ceilings were set

	requests, hits, forbidden atomic.Uint64
	ceilings                  [ceilings]ceiling

	mu   sync.Mutex // guards held
	held [Kinds]held
}

// The ceilings of an identity.
const (
	ofRequests = iota
	ofHits
	ofNewKeys
	ceilings
)

// ceiling is a limit that may come and go with the file.
type ceiling struct {
	limiter atomic.Pointer[weir.Limiter] // nil: no bound
	refused atomic.Uint64
}

// Of is the account of an identity of a Set, made if there is none.
func (a *Accounts) Of(in *auth.Set, is *auth.Identity) *Account {
	have := (*a.byName.Load())[is.Name]
	if have != nil && have.is.Load() == is {
		return have
	}
	a.adding.Lock()
	defer a.adding.Unlock()
	old := *a.byName.Load()
	if have = old[is.Name]; have == nil {
		have = &Account{name: is.Name}
		kept := map[string]*Account{is.Name: have}
		for _, other := range in.Identities() { // those that are gone from the file go
			if s := old[other.Name]; s != nil {
				kept[other.Name] = s
			}
		}
		a.byName.Store(&kept)
	}
	have.setCeilings(is)
	return have
}

// setCeilings sets the ceilings that the file has now. One that stays, lower or higher, grants no fresh allowance.
func (s *Account) setCeilings(is *auth.Identity) {
	for i, l := range [ceilings]weir.Limit{
		ofRequests: {N: is.Ceilings.Requests, Per: time.Second},
		ofHits:     {N: is.Ceilings.Hits, Per: time.Second},
		ofNewKeys:  {N: is.Ceilings.NewKeys, Per: time.Minute},
	} {
		at := &s.ceilings[i].limiter
		switch limiter := at.Load(); {
		case l.N == 0:
			at.Store(nil)
		case limiter == nil:
			limiter, err := weir.NewLimiter(l)
			if err != nil {
				panic(err) // auth allows no ceiling that package limit has not
			}
			at.Store(limiter)
		default:
			if err := limiter.SetLimit(l); err != nil {
				panic(err) // as above
			}
		}
	}
	s.is.Store(is)
}

// take takes one of a ceiling, or says when there is one again.
func (c *ceiling) take() (wait time.Duration, ok bool) {
	limiter := c.limiter.Load()
	if limiter == nil {
		return 0, true
	}
	v := limiter.Take(1)
	if !v.Allowed {
		c.refused.Add(1)
	}
	return v.RetryAfter, v.Allowed
}

func (s *Account) Name() string { return s.name }

func (s *Account) Requested() { s.requests.Add(1) }

// Forbid counts a request, or a line of hits, that no role of the identity is for.
func (s *Account) Forbid() { s.forbidden.Add(1) }

func (s *Account) Counted() { s.hits.Add(1) }

// TakeHit takes one of the ceiling of hits, or says when there is one again.
func (s *Account) TakeHit() (wait time.Duration, ok bool) { return s.ceilings[ofHits].take() }

// BoundsNewKeys reports whether there is a ceiling of new keys.
func (s *Account) BoundsNewKeys() bool { return s.ceilings[ofNewKeys].limiter.Load() != nil }

// TakeNewKey is TakeHit of that ceiling.
func (s *Account) TakeNewKey() (wait time.Duration, ok bool) { return s.ceilings[ofNewKeys].take() }

// Unauthorized counts a request of a caller that proved no identity.
func (a *Accounts) Unauthorized() { a.unauthorized.Add(1) }

// TakeRequest takes one of the ceiling of requests, or fails.
func (s *Account) TakeRequest() error {
	wait, ok := s.ceilings[ofRequests].take()
	if ok {
		return nil
	}
	return &api.Error{Code: api.CodeCeiling, RetryAfter: wait, Message: "identity " + s.name + " has reached its requests_per_second: ask less often, or raise it in the tokens file"}
}

// The kinds of what all identities share, and of which one that is for some keys only has its admit.Share.
const (
	Bans = iota
	Grants
	Permits
	Reservations
	Kinds
)

var kindNames = [Kinds]string{"bans", "grants", "permits", "reservations"}

// held is what an identity has of a kind.
type held struct {
	n       int       // at least as many as it had when they were counted, and took since
	counted time.Time // when n was counted; zero: never since the start
}

// The things of an identity are counted again when the last count is older than countedFor: other nodes, and the time
// before a start, add to them. Near its share they are counted no more often than every recountEvery.
const (
	countedFor   = 10 * time.Second
	recountEvery = 100 * time.Millisecond
)

// TakeShare takes one more thing of a kind, of which there are bound for all. It fails if the identity is for some keys
// only and has its share. count counts the things that are there, with the keys that the identity is for. It is called
// when the last count is older than 10 s, and when the things that were taken since may have reached the share.
func (a Rights) TakeShare(kind, bound int, count func() int) error {
	if a.All() || a.Account == nil {
		return nil
	}
	s := a.Account
	s.mu.Lock()
	defer s.mu.Unlock()
	h, share := &s.held[kind], admit.Share(bound)
	h.n++
	if old := time.Since(h.counted); old > countedFor || h.n > share && old > recountEvery {
		h.counted, h.n = time.Now(), count()+1
	}
	if h.n <= share {
		return nil
	}
	h.n--
	return &api.Error{Code: api.CodeOverloaded, Message: fmt.Sprintf("identity %s has %d of %d %s, the share of an identity that is for some keys only: wait until some are over, or give some back", s.name, share, bound, kindNames[kind])}
}

// AccountFigures are what one identity has used since its first request.
type AccountFigures struct {
	Identity     string `label:"identity"`
	Requests     uint64 `metric:"weir_identity_requests_total" doc:"Authenticated requests of an identity."`
	Hits         uint64 `metric:"weir_identity_hits_total" doc:"Lines of hits of an identity that went to the counters."`
	Forbidden    uint64 `metric:"weir_identity_refused_total,reason=forbidden" doc:"Requests, or lines of hits, of an identity that were refused: by its roles (forbidden) or by a ceiling."`
	OverRequests uint64 `metric:"weir_identity_refused_total,reason=requests_per_second"`
	OverHits     uint64 `metric:"weir_identity_refused_total,reason=hits_per_second"`
	OverNewKeys  uint64 `metric:"weir_identity_refused_total,reason=new_keys_per_minute"`
}

// List are the figures of all accounts, by name, for metrics.
func (a *Accounts) List() (list []AccountFigures) {
	for name, account := range *a.byName.Load() {
		list = append(list, AccountFigures{
			name, account.requests.Load(), account.hits.Load(), account.forbidden.Load(),
			account.ceilings[ofRequests].refused.Load(), account.ceilings[ofHits].refused.Load(), account.ceilings[ofNewKeys].refused.Load(),
		})
	}
	slices.SortFunc(list, func(a, b AccountFigures) int { return cmp.Compare(a.Identity, b.Identity) })
	return list
}
