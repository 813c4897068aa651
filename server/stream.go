package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/server/openapi"
	"github.com/weir-counter/weir/server/pace"
	"github.com/weir-counter/weir/server/problem"
	"github.com/weir-counter/weir/service"
	"github.com/weir-counter/weir/service/board"
	"github.com/weir-counter/weir/service/conns"
)

func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), openapi.EventStream)
}

func (s *Server) viewJSON(ctx context.Context, c service.Caller, query any) ([]byte, error) {
	view, err := s.made(ctx, c, query)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// stream sends a view as server-sent events until the client leaves, or may not look any more. The view is
// made once for all streams of the same identity and query. A client that does not take an event
// with a pace is cut off; one that is slower than the view is made misses some.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c service.Caller, query any) {
	watch, err := s.board.Watch(fmt.Sprintf("%q %T %+q", c.Name(), query, fmt.Sprint(query)), board.Asker{
		May: func() error { return s.service.Identify(c) },
		Ask: func(ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, makingView)
			defer cancel()
			return s.viewJSON(ctx, c, query)
		},
	})
	if err != nil {
		boardProblem(err).Write(w)
		return
	}
	defer watch.Close()
	to := eventStream{w: w, control: http.NewResponseController(w), conn: pace.Of(r), pace: s.pace()}
	for first := true; ; first = false {
		to.conn.Waits(true)
		document, last, err := watch.Next(r.Context())
		to.conn.Waits(false)
		switch {
		case r.Context().Err() != nil:
			return
		case err != nil && first: // there is a status for it yet
			boardProblem(err).Write(w)
			return
		case err != nil:
			if document, err = json.Marshal(boardProblem(err)); err != nil {
				panic(err) // strings and numbers only
			}
			err = to.send("problem", document)
		default:
			err = to.send("view", document)
		}
		if err != nil || last {
			return
		}
	}
}

// boardProblem is the problem of an error of a board, or of what it computes.
func boardProblem(err error) *problem.Problem {
	switch {
	case errors.Is(err, board.ErrFull):
		return problem.New(api.CodeOverloaded, "", fmt.Sprintf("%d different views are open: close some, or look at one that is open", board.MaxTopics))
	case errors.Is(err, board.ErrClosed):
		return problem.New(api.CodeStopping, "", "this server is stopping: use another")
	}
	return problem.Of(err)
}

// eventStream writes server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	conn    *conns.Conn
	pace    pace.Pace
	began   bool
}

// send sends one event, whose data has no line breaks, and returns when the client has it.
func (e *eventStream) send(event string, data []byte) error {
	if !e.began {
		e.began = true
		h := e.w.Header()
		h.Set("Content-Type", openapi.EventStream)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // proxies are to pass each event on
		h.Set("X-Content-Type-Options", "nosniff")
		_ = e.control.SetReadDeadline(time.Time{}) // as in pace.Body: the request is there, the stream outlasts its deadline
	}
	to := pace.NewWriter(e.w, e.pace)
	defer to.NoDeadline()
	if _, err := fmt.Fprintf(to, "event: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return e.control.Flush()
}
