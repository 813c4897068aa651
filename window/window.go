package window

const (
	MaxSeconds = 1_000_000_000
	MaxTime    = 1<<34 - 1
)

type Outcome uint8

const (
	Counted Outcome = iota
	Late
	TooLate
)

type Count struct{ Lower, Estimate, Upper uint64 }

func (c Count) Exact() bool { return c.Lower == c.Upper }
