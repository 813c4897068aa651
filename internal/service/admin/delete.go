package admin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/request"
)

// Delete deletes a key and its hits, on all nodes.
func (s *Service) Delete(ctx context.Context, c access.Caller, key string) (err error) {
	defer func() { s.parts.Gate.Audit(ctx, c, "delete key", key, err) }()
	if _, err := s.parts.Gate.EnterKeys(c, auth.Admin, key); err != nil {
		return err
	}
	existed, err := s.deleteOne(ctx, key)
	if err == nil && !existed {
		return &api.Error{Code: api.CodeUnknownKey, Field: "key", Message: "no key " + strconv.Quote(request.Clip(key)) + " is held"}
	}
	return err
}

// deleteOne deletes a key, and tells whether anything was known of it. Its history goes when the
// writer comes to its removal in the journal, and at once where history alone knows it.
func (s *Service) deleteOne(ctx context.Context, key string) (existed bool, err error) {
	existed, err = s.parts.Sources.Own().Delete(ctx, key)
	if err != nil || existed || s.parts.History == nil {
		return existed, err
	}
	return s.forget(ctx, key)
}

// forget deletes the history of keys that are not held, with all hits until now in it.
func (s *Service) forget(ctx context.Context, keys ...string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err = s.parts.History.Await(ctx); err == nil {
		existed, err = s.parts.History.Forget(ctx, keys...)
	}
	if err != nil {
		s.parts.Log.WarnContext(ctx, "history could not delete keys", "error", err)
		return false, &api.Error{Code: api.CodeNoHistory, Message: "history could not be deleted: its database can't be reached, or is behind; try again"}
	}
	return existed, nil
}

// forgetTimeout bounds what a deletion waits for history.
const forgetTimeout = 30 * time.Second

// deleteAtOnce is how many keys one DeletePrefix deletes at most.
const deleteAtOnce = 1000

// DeletePrefix deletes the first keys that begin with prefix, which is not empty, and sort after
// another: those that are held, and those that history knows. Where there are more, next is what
// to go on after. With ofLimits, the call after nothing also forgets what all keys that begin so have used
// of limits (engine.Engine.ForgetKeys).
func (s *Service) DeletePrefix(ctx context.Context, c access.Caller, prefix, after string, ofLimits bool) (answer api.DeletedAnswer, err error) {
	action := "delete prefix"
	if ofLimits {
		action = "delete prefix, reset limits"
	}
	defer func() { s.parts.Gate.Audit(ctx, c, action, prefix, err) }()
	may, err := s.parts.Gate.Enter(c, auth.Admin)
	if err != nil {
		return answer, err
	}
	if prefix == "" {
		return answer, &api.Error{Code: api.CodeMissingKey, Field: "prefix", Message: "prefix is empty: say which keys to delete"}
	}
	parts, err := may.PartsOf(prefix)
	if err != nil {
		return answer, err
	}
	if len(parts) != 1 || parts[0] != prefix {
		return answer, may.Refuse("prefix", "role admin of this identity is not for all keys that begin with "+request.Clip(prefix))
	}
	if ofLimits && !may.AllLimits() {
		return answer, may.Refuse("limits", "role admin of this identity is for limits by name: reset each key of these")
	}
	if ofLimits && after == "" {
		if answer.Reset, err = s.parts.Engine.ForgetKeys(prefix); err != nil {
			return answer, err
		}
	}
	keys, _, err := s.parts.Sources.Own().Keys(ctx, 0, prefix, after, deleteAtOnce)
	if err != nil {
		return answer, err
	}
	full := len(keys) == deleteAtOnce
	if s.parts.History != nil {
		asking, cancel := context.WithTimeout(ctx, forgetTimeout)
		defer cancel()
		old, err := s.parts.History.Keys(asking, prefix, after, deleteAtOnce)
		if err != nil {
			s.parts.Log.WarnContext(ctx, "history could not say which keys it has", "error", err)
			return answer, &api.Error{Code: api.CodeNoHistory, Message: "history can't say which keys it has, so nothing was deleted: try again when it can be read"}
		}
		full = full || len(old) == deleteAtOnce
		keys = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(keys), old...))))
	}
	if full {
		keys = keys[:min(deleteAtOnce, len(keys))]
		answer.Next = keys[len(keys)-1]
	}
	var unheld []string
	for _, key := range keys {
		existed, err := s.parts.Sources.Own().Delete(ctx, key)
		if err != nil {
			return answer, err
		}
		if !existed {
			unheld = append(unheld, key)
		}
	}
	answer.Deleted = len(keys)
	if len(unheld) > 0 && s.parts.History != nil {
		_, err = s.forget(ctx, unheld...)
	}
	return answer, err
}
