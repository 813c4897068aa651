package resp

// This part is the commands by which counters expire.

// expire is EXPIRE and the like: the time is in units of so many milliseconds, from now or from the Unix epoch.
func expire(unit int64, fromEpoch bool) func(*session, [][]byte) error {
	return func(s *session, args [][]byte) error {
		only, err := readExpireIf(args[3:])
		if err != nil {
			return err
		}
		from := s.millis
		if fromEpoch {
			from = 0
		}
		at, err := ArgumentMoment(args[2], unit, from)
		if err != nil {
			return err
		}
		s.writeBool(s.counters.Expire(s.millis, args[1], max(at, 1), only)) // 0 would be never
		return nil
	}
}

// readExpireIf reads the conditions of EXPIRE. Each may be repeated.
func readExpireIf(args [][]byte) (only SetCondition, err error) {
	for _, arg := range args {
		switch {
		case ArgumentIs(arg, "NX"):
			only |= Absent
		case ArgumentIs(arg, "XX"):
			only |= Present
		case ArgumentIs(arg, "GT"):
			only |= Later
		case ArgumentIs(arg, "LT"):
			only |= Earlier
		default:
			return only, NewReplyError("ERR", "Unsupported option "+ClipArgument(arg))
		}
	}
	switch {
	case only.has(Absent) && only != Absent:
		return only, NewReplyError("ERR", "NX and XX, GT or LT options at the same time are not compatible")
	case only.has(Later) && only.has(Earlier):
		return only, NewReplyError("ERR", "GT and LT options at the same time are not compatible")
	}
	return only, nil
}

// persist is PERSIST: 1 if the counter would have expired.
func (s *session) persist(args [][]byte) error {
	s.writeBool(s.counters.Expire(s.millis, args[1], 0, Present))
	return nil
}

// timeLeft is TTL and PTTL: how many units, of so many milliseconds, are left; -2: no counter; -1: it never
// expires. It rounds to the nearest, as Redis does.
func timeLeft(unit int64) func(*session, [][]byte) error {
	return func(s *session, args [][]byte) error {
		left := s.millisLeft(s.counters.Get(s.millis, args[1]))
		if left > 0 {
			left = (left + unit/2) / unit
		}
		s.out.Int(left)
		return nil
	}
}
