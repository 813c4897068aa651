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
	"github.com/weir-counter/weir/service/views"
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

// viewAgain is viewJSON for a stream of that name.
func (s *Server) viewAgain(ctx context.Context, c service.Caller, query any, name string) ([]byte, error) {
	q, is := query.(views.OverviewQuery)
	if !is {
		return s.viewJSON(ctx, c, query)
	}
	view, err := s.tops.OverviewAgain(ctx, s.service, c, q, name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(view)
}

// stream sends a view as server-sent events until the client leaves, or may not look any more. The view is
// made once for all streams of the same identity, while it may do the same, and query. A client that does not take an event
// with a pace is cut off; one that is slower than the view is made misses some.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c service.Caller, query any) {
	to := eventStream{w: w, control: http.NewResponseController(w), conn: pace.Of(r), pace: s.pace()}
	for s.streamWhile(&to, r, c, query) {
	}
}

// errOtherScope ends the watch of a client that may do something else than when it began.
var errOtherScope = errors.New("the identity may do something else now")

// streamWhile streams while the client may do the same; again tells whether to begin again since that has changed.
func (s *Server) streamWhile(to *eventStream, r *http.Request, c service.Caller, query any) (again bool) {
	watch, leave, err := s.watch(c, query)
	if err != nil {
		to.end(err)
		return false
	}
	defer leave()
	for {
		to.conn.Waits(true)
		document, last, err := watch.Next(r.Context())
		to.conn.Waits(false)
		switch {
		case r.Context().Err() != nil:
			return false
		case errors.Is(err, errOtherScope):
			return true
		case err != nil && !to.began:
			to.end(err)
			return false
		case err != nil:
			err = to.problem(err)
		default:
			err = to.send("view", document)
		}
		if err != nil || last {
			return false
		}
	}
}

// watch begins to watch what the client looks at, as far as it may now; leave ends it.
func (s *Server) watch(c service.Caller, query any) (watch *board.Watch, leave func(), err error) {
	scope, err := s.service.Scope(c)
	if err != nil {
		return nil, nil, err
	}
	may := func() error {
		if now, err := s.service.Scope(c); err != nil || now == scope {
			return err
		}
		return errOtherScope
	}
	log, isLog := query.(logQuery)
	if isLog {
		query = logQuery{prefix: log.prefix}
	}
	name := fmt.Sprintf("%q %q %#v", c.Name(), scope, query)
	end := func() {}
	if isLog { // hits are noted for as long as it is watched
		tap, err := s.service.OpenLog(c, log.prefix)
		if err != nil {
			return nil, nil, err
		}
		query, end = tap, tap.Close
	}
	watch, err = s.board.Watch(name, board.Asker{
		Client: c.String(),
		May:    may,
		Ask: func(ctx context.Context) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, makingView)
			defer cancel()
			document, err := s.viewAgain(ctx, c, query, name)
			if changed := may(); changed != nil { // it may be made for what it may do now
				return nil, changed
			}
			return document, err
		},
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return watch, func() { watch.Close(); end() }, nil
}

// boardProblem is the problem of an error of a board, or of what it computes.
func boardProblem(err error) *problem.Problem {
	switch {
	case errors.Is(err, board.ErrFull):
		return problem.New(api.CodeOverloaded, "", fmt.Sprintf("%d different views are open: close some, or look at one that is open", board.MaxTopics))
	case errors.Is(err, board.ErrShare):
		return problem.New(api.CodeOverloaded, "", fmt.Sprintf("you look at %d different views, your share: close some, so that others can look too", board.MaxOwn))
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

// problem sends what is wrong in place of a view.
func (e *eventStream) problem(err error) error {
	document, failed := json.Marshal(boardProblem(err))
	if failed != nil {
		panic(failed) // strings and numbers only
	}
	return e.send("problem", document)
}

// end says why there is no view: with a status, while there is one to choose.
func (e *eventStream) end(err error) {
	if !e.began {
		boardProblem(err).Write(e.w)
		return
	}
	_ = e.problem(err) // a client that left is not an error of ours
}
