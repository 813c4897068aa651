package weir

import "github.com/weir-counter/weir/internal/admission"

// TakePermit is that of package internal/limits. Of the limit, N is how many hold a permit at most, and Per for how long after a heartbeat.
func (s *limitSide) TakePermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	of := (*KeyedLimit)(s).Limit()
	p, err = s.engine.limits.TakePermit(s.name.Name, s.engine.keys.PartitionOf(key), key, holder, int(of.N), of.Per)
	return p, limitError(err)
}

// RenewPermit is that of package internal/limits.
func (s *limitSide) RenewPermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	p, err = s.engine.limits.RenewPermit(s.name.Name, s.engine.keys.PartitionOf(key), key, holder, (*KeyedLimit)(s).Limit().Per)
	return p, limitError(err)
}

// ReleasePermit is that of package internal/limits.
func (s *limitSide) ReleasePermit(key string, holder uint64) (p admission.Permitted, err error) {
	if err := checkKey(key); err != nil {
		return p, err
	}
	p, err = s.engine.limits.ReleasePermit(s.name.Name, s.engine.keys.PartitionOf(key), key, holder)
	return p, limitError(err)
}

// Permits is that of package internal/limits.
func (r *side) Permits(f func(name, key string, held int)) { r.engine.limits.Permits(f) }
