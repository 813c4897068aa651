package resp

// This part is the commands by which counters expire.

func (s *CounterSession) expire(args [][]byte) error    { return s.expires(args, 1000, s.Millis) }
func (s *CounterSession) pexpire(args [][]byte) error   { return s.expires(args, 1, s.Millis) }
func (s *CounterSession) expireAt(args [][]byte) error  { return s.expires(args, 1000, 0) }
func (s *CounterSession) pexpireAt(args [][]byte) error { return s.expires(args, 1, 0) }

// expires says when a counter expires: args[2] units of so many milliseconds from a beginning.
func (s *CounterSession) expires(args [][]byte, unit, from int64) error {
	only, err := readExpireIf(args[3:])
	if err != nil {
		return err
	}
	at, err := ArgumentMoment(args[2], unit, from)
	if err != nil {
		return err
	}
	s.writeBool(s.Counters.Expire(s.Millis, args[1], max(at, 1), only)) // 0 would be never
	return nil
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
func (s *CounterSession) persist(args [][]byte) error {
	s.writeBool(s.Counters.Expire(s.Millis, args[1], 0, Present))
	return nil
}

func (s *CounterSession) ttl(args [][]byte) error  { return s.timeLeft(args[1], 1000) }
func (s *CounterSession) pttl(args [][]byte) error { return s.timeLeft(args[1], 1) }

// timeLeft writes how many units, of so many milliseconds, are left: -2, no counter; -1, it never
// expires. It rounds to the nearest, as Redis does.
func (s *CounterSession) timeLeft(key []byte, unit int64) error {
	c, ok := s.Counters.Get(s.Millis, key)
	switch {
	case !ok:
		s.Out.Int(-2)
	case c.Expires == 0:
		s.Out.Int(-1)
	default:
		s.Out.Int((c.Expires - s.Millis + unit/2) / unit)
	}
	return nil
}
