package access

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weir-counter/weir/service/caller"
	"github.com/weir-counter/weir/service/failure"
)

// Audit notes an action of role admin that was tried: who did what to what, and how it
// ended. The time is the record's.
func (g *Gate) Audit(ctx context.Context, c caller.Caller, action, target string, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
		var refused *failure.Error
		if errors.As(err, &refused) {
			outcome = string(refused.Code)
		}
	}
	who := c.Name()
	if who == "" {
		who = "anybody" // nobody has to prove an identity here, or has not
	}
	g.record.LogAttrs(ctx, slog.LevelInfo, "audit", slog.String("who", who), slog.String("action", action),
		slog.String("target", target), slog.String("outcome", outcome), slog.String("remote", c.Remote()))
}
