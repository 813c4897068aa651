package sources

import (
	"context"
	"fmt"
	"time"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/replication"
	"github.com/weir-counter/weir/service/backend"
	"github.com/weir-counter/weir/service/denials"
	"github.com/weir-counter/weir/service/failure"
	"github.com/weir-counter/weir/service/pools"
)

// Sources are all who answer. They may be used by many goroutines.
type Sources struct {
	engine  *weir.Engine
	own     Answers
	peers   peers
	regions backend.Regions // nil: the server counts for none
	pools   *pools.Pools
}

// New answers from an engine, or if own is not nil from that, which asks other nodes; and of a cluster and of
// regions, each nil if there is none.
func New(engine *weir.Engine, own Answers, cluster backend.Cluster, regions backend.Regions, places *pools.Pools) *Sources {
	s := &Sources{engine: engine, own: own, regions: regions, pools: places}
	if s.own == nil {
		s.own = held{s}
	}
	s.peers = s.peersOf(cluster)
	return s
}

// Own answers for this region, with what it knows now.
func (s *Sources) Own() Answers { return s.own }

// Held answers from this node's engine alone.
func (s *Sources) Held() Answers { return held{s} }

// Now is the second that questions without a time are asked at. It is the
// engine's second as a whole, hits of its remaining fraction included: a
// window that ended within a second could not be exact. An engine on event
// time that has seen no hit has no time yet; any answers zero then.
func (s *Sources) Now() time.Time {
	now := s.engine.Now()
	if now.IsZero() {
		now = time.Now()
	}
	return now.Truncate(time.Second)
}

// Wall is the engine's time of day, also where it counts by event time.
func (s *Sources) Wall() time.Time { return replication.Of(s.engine).Wall() }

// Freshness is that of this node.
func (s *Sources) Freshness() api.Freshness { return s.peers.fresh().Answer() }

// AboutDenial is what a denial of just now knew of other nodes.
func (s *Sources) AboutDenial(now time.Time) denials.About { return s.peers.aboutDenial(now) }

// AddReady adds what is to say of other nodes on whether this one is ready.
func (s *Sources) AddReady(a *api.Ready) { s.peers.addReady(a) }

// MaxBatch bounds the questions of one Batch.
const MaxBatch = 50_000

// Batch is BoundsOf for questions of a client, whose number is bounded.
func (s *Sources) Batch(ctx context.Context, questions []CountQuestion) ([]api.Bounds, api.Freshness, error) {
	if len(questions) > MaxBatch {
		return nil, api.Freshness{}, &failure.Error{Code: api.CodeTooManyAnswers, Message: fmt.Sprintf("%d questions: ask for at most %d at once", len(questions), MaxBatch)}
	}
	return s.BoundsOf(ctx, questions)
}

// BoundsOf counts for this region.
func (s *Sources) BoundsOf(ctx context.Context, questions []CountQuestion) ([]api.Bounds, api.Freshness, error) {
	counts, fresh, err := s.own.Counts(ctx, questions, make([]weir.Count, 0, len(questions)))
	if err != nil {
		return nil, api.Freshness{}, failure.As(err)
	}
	bounds := make([]api.Bounds, len(counts))
	for i := range counts {
		bounds[i] = Bounds(&counts[i], &fresh)
	}
	return bounds, fresh.Answer(), nil
}
