package node

import (
	"slices"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/recent"
	"github.com/weir-counter/weir/region"
)

// lateFor is for how long it is not asked again which regions are late: a decision must not cost as much.
const lateFor = 100 * time.Millisecond

// others are the other regions as limits know them that regions share: a admit.Others.
type others struct {
	of   *region.Region
	late recent.Value[[]string]
	ask  func() []string // lateNow
}

func newOthers(of *region.Region) *others {
	o := &others{of: of}
	o.ask = o.lateNow
	return o
}

// Counted allocates nothing, unless a region keeps hits for less than w: it is late then.
func (o *others) Counted(key string, at time.Time, w time.Duration) (lower, upper uint64, late []string, err error) {
	late = o.late.Get(lateFor, o.ask)
	err = o.of.Read(func(region string, e *weir.Engine) error {
		c, err := e.CountAt(at, key, w)
		lower += c.Lower
		if c.HasUpper() {
			upper += c.Upper
			return err
		}
		upper += c.Lower
		if !slices.Contains(late, region) {
			late = append(slices.Clip(late), region)
		}
		return err
	})
	return lower, upper, late, err
}

// lateNow are the other regions of which newer hits may be missing, and nodes of them.
func (o *others) lateNow() (names []string) {
	for _, s := range o.of.Regions() {
		if s.Own || s.Gone {
			continue
		}
		if s.Behind {
			names = append(names, s.Name)
		}
		for _, l := range s.Late {
			names = append(names, s.Name+"/"+l.Node)
		}
	}
	return names
}
