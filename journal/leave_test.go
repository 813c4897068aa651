package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A node that stops while the others elect a leader says so once they have: one that goes on
// alone later would else have to fear that it lacks hits. With nobody there it
// does not wait.
func TestTell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		elected time.Duration // from when on a flush is acknowledged
		others  bool
		fails   error
		wantErr bool
		took    time.Duration
	}{
		"at once":           {others: true},
		"after an election": {elected: 7 * time.Second, others: true, took: 7 * time.Second},
		"nobody there":      {elected: time.Hour, took: leaveTimeout, wantErr: true},
		"no quorum":         {elected: time.Hour, others: true, took: 10 * time.Second, wantErr: true},
		"the journal ended": {others: true, fails: errClosing, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				sync := func(ctx context.Context) error {
					if c.fails != nil {
						return c.fails
					}
					select {
					case <-time.After(c.elected - time.Since(began)):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				err := tell(ctx, leaveTimeout, sync, func() bool { return c.others })
				if (err != nil) != c.wantErr || c.fails != nil && !errors.Is(err, c.fails) {
					t.Error(err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}
