package service

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
)

// accounts are what identities have used of this node. They are as many as the tokens file has
// identities, and each begins with its first request.
type accounts struct {
	byName       atomic.Pointer[map[string]*spending]
	adding       sync.Mutex    // held to put another map in the place of byName
	unauthorized atomic.Uint64 // requests of who proved no identity
}

func newAccounts() *accounts {
	a := new(accounts)
	a.byName.Store(&map[string]*spending{})
	return a
}

// spending is what one identity has used.
type spending struct {
	name string
	is   atomic.Pointer[auth.Identity] // as the file was when ceilings were set

	requests, hits, forbidden atomic.Uint64
	ceilings                  [ceilings]ceiling
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

// of is the account of an identity of a Set, made if there is none.
func (a *accounts) of(in *auth.Set, is *auth.Identity) *spending {
	have := (*a.byName.Load())[is.Name]
	if have != nil && have.is.Load() == is {
		return have
	}
	a.adding.Lock()
	defer a.adding.Unlock()
	old := *a.byName.Load()
	if have = old[is.Name]; have == nil {
		have = &spending{name: is.Name}
		kept := map[string]*spending{is.Name: have}
		for _, other := range in.Identities() { // those that are gone from the file go
			if s := old[other.Name]; s != nil {
				kept[other.Name] = s
			}
		}
		a.byName.Store(&kept)
	}
	have.settle(is)
	return have
}

// settle sets the ceilings that the file has now. One that stays, lower or higher, grants no fresh
// allowance.
func (s *spending) settle(is *auth.Identity) {
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

func (s *spending) takeRequest() error {
	wait, ok := s.ceilings[ofRequests].take()
	if ok {
		return nil
	}
	return &Error{Code: api.CodeCeiling, RetryAfter: wait, Message: "identity " + s.name + " has reached its requests_per_second: ask less often, or raise it in the tokens file"}
}

// AccountStats are the figures of one identity, since its first request.
type AccountStats struct {
	Identity                            string
	Requests, Hits                      uint64
	Forbidden                           uint64 // requests, and lines of hits, that its roles are not for
	OverRequests, OverHits, OverNewKeys uint64 // refused by a ceiling
}

// Accounts lists them by name, for metrics, with the requests that proved no identity.
func (s *Service) Accounts() (list []AccountStats, unauthorized uint64) {
	for name, of := range *s.accounts.byName.Load() {
		list = append(list, AccountStats{
			name, of.requests.Load(), of.hits.Load(), of.forbidden.Load(),
			of.ceilings[ofRequests].refused.Load(), of.ceilings[ofHits].refused.Load(), of.ceilings[ofNewKeys].refused.Load(),
		})
	}
	slices.SortFunc(list, func(a, b AccountStats) int { return cmp.Compare(a.Identity, b.Identity) })
	return list, s.accounts.unauthorized.Load()
}
