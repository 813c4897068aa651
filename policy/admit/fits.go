package admit

import (
	"fmt"

	"github.com/weir-counter/weir/policy"
)

// Fits is the error of a Set that can't be in use on this node, whatever is beside it: of limits over regions on a node of none; nil:
// there is none.
func (l *Live) Fits(s *policy.Set) error {
	for i := range s.Len() {
		p := s.At(i)
		if _, _, err := l.Here(p, p.Limit); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}
