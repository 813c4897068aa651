package decisions

import (
	"context"
	"errors"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/auth"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// BanKey has a key, as it is counted, denied under a policy for so long, whatever it has used: admit.Live.Ban. It is role admin's.
func (s *Service) BanKey(ctx context.Context, c caller.Caller, name, key string, length time.Duration) (_ api.BanAnswer, err error) {
	defer func() {
		s.parts.Gate.Audit(ctx, c, "ban", failure.Clip(key)+" of "+failure.Clip(name)+" for "+units.FormatDuration(length), err)
	}()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	if err != nil {
		return api.BanAnswer{}, err
	}
	if err := s.parts.Policies.Ban(name, key, length); err != nil {
		if of, ok := errors.AsType[*weir.Error](err); ok && of.Code == weir.CodeInvalidLimit {
			return api.BanAnswer{}, &failure.Error{Code: api.CodeUnknownLimit, Field: "limit", Message: of.Message}
		}
		return api.BanAnswer{}, failure.As(err)
	}
	return api.BanAnswer{Name: name, Key: key, Until: api.Time{Time: s.parts.Sources.Now().Add(length)}}, nil
}

// UnbanKey lifts the ban of a key: admit.Live.Unban. It is role admin's.
func (s *Service) UnbanKey(ctx context.Context, c caller.Caller, name, key string) (_ api.UnbanAnswer, err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "unban", failure.Clip(key)+" of "+failure.Clip(name), err) }()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err == nil {
		err = s.mayChange(may, name, key)
	}
	if err != nil {
		return api.UnbanAnswer{}, err
	}
	was, err := s.parts.Policies.Unban(name, key)
	if err != nil {
		return api.UnbanAnswer{}, failure.As(err)
	}
	return api.UnbanAnswer{Name: name, Key: key, Was: was}, nil
}

// Bans lists the keys that are banned now and that the caller may read of, at most n, those whose ban ends last first.
func (s *Service) Bans(c caller.Caller, n int) (api.BansAnswer, error) {
	may, err := s.parts.Gate.Enter(c, auth.Read)
	if err != nil {
		return api.BansAnswer{}, err
	}
	answer := api.BansAnswer{Bans: []api.BanAnswer{}}
	for _, b := range s.parts.Policies.Bans(weir.MaxBans) {
		if len(answer.Bans) == n {
			break
		}
		if may.All() || may.Limit(b.Name) && may.CheckKey(b.Key) == nil {
			answer.Bans = append(answer.Bans, api.BanAnswer{Name: b.Name, Key: b.Key, Until: api.Millis(b.Until)})
		}
	}
	return answer, nil
}
