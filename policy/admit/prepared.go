package admit

import (
	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/limit"
	"github.com/weir-counter/weir/policy"
)

// Prepared is a limit that whoever asks keeps ready, beside the policies of the file: a door that has
// limits in a format of its own. A Request has it in place of policies.
type Prepared struct {
	boundLimit
	live *Live
	name string
	mode policy.Mode
	hits hitKeys
}

// Prepare makes a limit ready. What a key has used of it is kept by its name: prepared again with
// other numbers, it grants no fresh allowance. Release must follow once it is asked no more. The error is a
// *weir.Error, of a limit that can't be, or of an engine that knows too many names.
func (l *Live) Prepare(name string, of Limit, mode policy.Mode) (*Prepared, error) {
	kl, err := l.limit(limit.WhereShared, name, of)
	if err != nil {
		return nil, err
	}
	return &Prepared{boundLimit: boundLimit{limit: kl, elsewhere: l.sharedLimit(name)}, live: l, name: name, mode: mode, hits: newHitKeys(name)}, nil
}

// Use has Live.Limit find the limit by its name, in place of an earlier one.
func (p *Prepared) Use() { p.live.prepared.Store(p.name, p) }

// Name is what it was prepared as.
func (p *Prepared) Name() string { return p.name }

// Release lets the limit go. Requests under way may still have it.
func (p *Prepared) Release() {
	p.live.prepared.CompareAndDelete(p.name, p)
	p.limit.Release()
}

// preparedLimit is the engine's limit of a name that is Prepared, and in use.
func (l *Live) preparedLimit(name string) (kl *weir.KeyedLimit, ok bool) {
	p, ok := l.prepared.Load(name)
	if !ok {
		return nil, false
	}
	return p.(*Prepared).limit, true
}

// gather notes the limit of a request that has one ready.
func (p *Prepared) gather(r *Request, d *Decision) error {
	if err := d.note(p.boundLimit, r.mode(p.mode), r.Key, r.N, r.hits(&p.hits)); err != nil {
		return err
	}
	d.countBy(r.Values)
	return nil
}
