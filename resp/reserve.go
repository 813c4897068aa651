package resp

import (
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
	"github.com/weir-counter/weir/service"
)

// reserveAdmissions is RESERVE: the ID, null for a denial and where no limit is for the keys, then the reply of ALLOW, null where the ID was known.
func (s *session) reserveAdmissions(args [][]byte) error {
	var of service.Reservation
	var err error
	args = args[1:]
	for n := len(args); n > 2; n = len(args) {
		value := string(args[n-1])
		switch option := args[n-2]; {
		case argument.Is(option, "TTL"):
			of.TTL, err = service.ParseWindow("ttl", value)
		case argument.Is(option, "ID"):
			of.ID = value
		case argument.Is(option, "UNSETTLED") && (value == "used" || value == "returned"):
			of.GiveBack = value == "returned"
		case argument.Is(option, "UNSETTLED"):
			err = argument.ErrSyntax
		default:
			n = 0
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		args = args[:n-2]
	}
	a := &s.allowing
	if err := a.read(args); err != nil {
		return err
	}
	id, known, err := s.server.service.Reserve(s.caller, a.requests, of, &a.decision)
	if err != nil {
		return err
	}
	s.out.Array(2)
	if id == "" {
		s.out.Null()
	} else {
		s.out.Bulk(id)
	}
	if known {
		s.out.Null()
		return nil
	}
	s.writeDecision(&a.decision)
	return nil
}

// settleReservation is SETTLE: by how many more may pass, and how many were used beyond the reservation and do not count.
func (s *session) settleReservation(args [][]byte) error {
	used, err := argument.Count(args[2], "used", 0)
	if err != nil {
		return err
	}
	debt := len(args) == 4 && argument.Is(args[3], "DEBT")
	if len(args) > 3 && !debt {
		return argument.ErrSyntax
	}
	answer, err := s.server.service.Settle(s.caller, string(args[1]), used, debt)
	if err != nil {
		return err
	}
	s.out.Array(2)
	s.out.Uint(leastRefunded(answer.Limits))
	s.out.Uint(answer.Over)
	return nil
}

func leastRefunded(limits []api.LimitSettled) (n uint64) {
	for i, l := range limits {
		if i == 0 || l.Refunded < n {
			n = l.Refunded
		}
	}
	return n
}
