package shadow

// minute finds the 60 seconds with the most denials: (at-60, at]. It is told them in the
// order of time.
type minute struct {
	ring    [60]uint64 // by second
	newest  int64      // Unix s
	sum     uint64     // of the ring
	worst   uint64
	worstAt int64 // Unix s; the first of those with as many
}

func (m *minute) add(at int64, n uint64) {
	if gap := at - m.newest; gap >= 60 {
		m.ring, m.sum = [60]uint64{}, 0
	} else {
		for s := m.newest + 1; s <= at; s++ {
			m.sum -= m.ring[s%60]
			m.ring[s%60] = 0
		}
	}
	m.newest = at
	m.ring[at%60] += n
	m.sum += n
	if m.sum > m.worst {
		m.worst, m.worstAt = m.sum, at
	}
}
