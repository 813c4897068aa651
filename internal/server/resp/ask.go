package resp

import (
	"strings"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/queries"
	"github.com/weir-counter/weir/internal/service/request"
)

// question has the options that questions have in common, at the end of their arguments.
type question struct {
	at, from time.Time // zero: not given
	now      time.Time // FROM may count back from it
	fresh    time.Duration
	prefix   string
	scope    request.Scope
	byRegion bool
}

// options reads NAME value pairs. The option named by at gives the time that the question is about. The names in others
// are accepted too.
func (q *question) options(args [][]byte, at string, others ...string) (err error) {
	if len(args)%2 != 0 {
		return ErrSyntax
	}
	for ; len(args) > 0 && err == nil; args = args[2:] {
		name, value := args[0], args[1]
		switch {
		case ArgumentIs(name, at):
			q.at, err = request.ParseTime(string(name), string(value))
		case ArgumentIs(name, "FRESH"):
			q.fresh, err = request.ParseFresh(string(value))
		case ArgumentIs(name, "SCOPE"):
			q.scope, err = request.ParseScope(strings.ToLower(string(value)))
		default:
			err = q.other(name, value, others)
		}
	}
	return err
}

func (q *question) other(name, value []byte, others []string) (err error) {
	for _, other := range others {
		if !ArgumentIs(name, other) {
			continue
		}
		switch other {
		case "PREFIX":
			q.prefix = string(value)
		case "BY":
			q.byRegion, err = request.ParseByRegion(strings.ToLower(string(value)))
		default:
			q.from, err = request.ParseAgo(string(name), string(value), q.now)
		}
		return err
	}
	return ErrSyntax
}

// isOption reports whether an argument begins the options.
func isOption(arg []byte) bool {
	return ArgumentIs(arg, "AT") || ArgumentIs(arg, "FRESH") || ArgumentIs(arg, "SCOPE") || ArgumentIs(arg, "BY")
}

// enterQuestions takes a place for questions. All requests that arrived together share it, until their answers are
// written. settle gives it back.
func (s *session) enterQuestions() error {
	return s.enter(s.server.service.Pools.Questions, &s.asks)
}

// enter takes a place of a pool for all requests that arrived together.
func (s *session) enter(pool *access.Pool, taken *bool) (err error) {
	if !*taken {
		err = pool.Enter(s.caller, 1)
		*taken = err == nil
	}
	return err
}

func (s *session) count(args [][]byte) error {
	q := &s.query
	if err := s.readCountQuery(q, args); err != nil {
		return err
	}
	if q.At.IsZero() && q.Fresh == 0 {
		q.At = s.second // as hits that came together with it
	}
	counting := &s.counting
	if err := s.server.service.CountInto(s.ctx, s.caller, q, counting); err != nil {
		return err
	}
	s.each(len(counting.Answers))
	for i := range counting.Answers {
		s.writeCount(&counting.Answers[i])
	}
	if counting.Cap() > keptWindows {
		*counting = queries.Counting{}
	}
	return nil
}

func (s *session) rate(args [][]byte) error {
	q := &s.query
	if err := s.readCountQuery(q, args); err != nil {
		return err
	}
	answers, err := s.server.service.Rate(s.ctx, s.caller, *q)
	if err != nil {
		return err
	}
	s.each(len(answers))
	for i := range answers {
		s.writeRate(&answers[i])
	}
	return nil
}

// each begins the answers of one question: an array, unless there is exactly one.
func (s *session) each(answers int) {
	if answers != 1 {
		s.out.Array(answers)
	}
}

// keptWindows is for how many windows a session keeps memory.
const keptWindows = 64

// readCountQuery reads a question into q, reuses its memory, and takes a place for it. The key is a view of the request.
func (s *session) readCountQuery(q *queries.CountQuery, args [][]byte) error {
	if cap(q.Windows) > keptWindows {
		q.Windows = nil
	}
	q.Keys, q.Windows = append(q.Keys[:0], ArgumentView(args[1])), q.Windows[:0]
	rest := args[2:]
	for len(rest) > 0 && !isOption(rest[0]) {
		w, err := request.ParseWindow("window", ArgumentView(rest[0]))
		if err != nil {
			return err
		}
		q.Windows, rest = append(q.Windows, w), rest[1:]
	}
	if len(q.Windows) == 0 {
		return ErrSyntax
	}
	var o question
	if err := o.options(rest, "AT", "BY"); err != nil {
		return err
	}
	q.At, q.Fresh, q.Scope, q.ByRegion = o.at, o.fresh, o.scope, o.byRegion
	return s.enterQuestions()
}

// writeCount writes lower, estimate, upper, exact and as_of. It adds late if a node is late, source if the answer is
// from history, and the parts of regions if the question asks for them.
func (s *session) writeCount(a *api.CountAnswer) {
	s.countFields(a)
	s.boundFields(&a.Bounds)
	s.endCount(a)
}

// boundFields writes lower, estimate, upper and exact.
func (s *session) boundFields(b *api.Bounds) {
	s.field("lower").Uint(b.Lower)
	s.field("estimate").Uint(b.Estimate)
	s.field("upper").OptionalUint(b.Upper)
	s.field("exact").Bool(b.Exact)
}

// countFields begins the fields of a count, or of its rate, which endCount ends.
func (s *session) countFields(a *api.CountAnswer) {
	s.fields(5+bit(a.Source != "")+bit(a.Regions != nil), &a.Freshness)
}

func (s *session) endCount(a *api.CountAnswer) {
	s.writeFreshness(&a.Freshness)
	if a.Source != "" {
		s.field("source").Bulk(a.Source)
	}
	if a.Regions == nil {
		return
	}
	s.field("regions").Array(len(a.Regions))
	for i := range a.Regions {
		part := &a.Regions[i]
		s.fields(6, &part.Freshness)
		s.field("region").Bulk(part.Region)
		s.boundFields(&part.Bounds)
		s.writeFreshness(&part.Freshness)
	}
}

func (s *session) writeRate(a *api.RateAnswer) {
	s.countFields(&a.CountAnswer)
	s.field("lower").Double(a.PerSecond.Lower)
	s.field("estimate").Double(a.PerSecond.Estimate)
	if upper := s.field("upper"); a.PerSecond.Upper == nil {
		upper.Null()
	} else {
		upper.Double(*a.PerSecond.Upper)
	}
	s.field("exact").Bool(a.Exact)
	s.endCount(&a.CountAnswer)
}

// fields begins an answer of n fields, and counts in late if there are any.
func (s *session) fields(n int, fresh *api.Freshness) {
	s.record(n + bit(len(fresh.Late) > 0))
}

// record begins an answer of n fields.
func (s *session) record(n int) {
	if s.out.V3() {
		s.out.Map(n)
	} else {
		s.out.Array(n)
	}
}

// number writes a whole number, and is the end of a command.
func (s *session) number(n uint64, err error) error {
	if err == nil {
		s.out.Uint(n)
	}
	return err
}

// ok writes OK, and is the end of a command.
func (s *session) ok() error {
	s.out.Status("OK")
	return nil
}

// field writes the name of the next field in version 3, whose value follows. In version 2 the position says what it is.
func (s *session) field(name string) *Writer {
	if s.out.V3() {
		s.out.Bulk(name)
	}
	return s.out
}

// writeFreshness writes as_of, in milliseconds of the Unix epoch, and the late nodes.
func (s *session) writeFreshness(f *api.Freshness) {
	s.field("as_of").Int(f.AsOf.UnixMilli())
	if len(f.Late) > 0 {
		s.field("late").Array(len(f.Late))
		for _, l := range f.Late {
			s.out.Bulk(l.Node)
		}
	}
}

// mostTop is the most keys of one TOP.
const mostTop = 1000

// series is SERIES: the end of each window and its hits.
func (s *session) series(args [][]byte) error {
	step, err := request.ParseWindow("step", string(args[2]))
	if err != nil {
		return err
	}
	o := question{now: s.server.service.Now()}
	if err := o.options(args[3:], "TO", "FROM"); err != nil {
		return err
	}
	q := queries.SeriesQuery{Key: string(args[1]), From: o.from, To: o.at, Step: step, Fresh: o.fresh, Scope: o.scope}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	answer, err := s.server.service.Series(s.ctx, s.caller, q)
	if err != nil {
		return err
	}
	s.fields(2, &answer.Freshness)
	s.field("points").Array(len(answer.Points))
	for i := range answer.Points {
		p := &answer.Points[i]
		s.out.Array(4)
		s.out.Int(p.At.Unix())
		s.writeBounds(&p.Bounds)
	}
	s.writeFreshness(&answer.Freshness)
	return nil
}

// top is TOP: keys and their hits, most hits first.
func (s *session) top(args [][]byte) error {
	w, err := request.ParseWindow("window", string(args[1]))
	if err != nil {
		return err
	}
	n, ok := ParseUint(args[2])
	if !ok || n < 1 || n > mostTop {
		return WrongArgument(api.CodeInvalidParameter, "n", "n of "+ClipArgument(args[2])+": must be a whole number from 1 to 1000")
	}
	var o question
	if err := o.options(args[3:], "AT", "PREFIX"); err != nil {
		return err
	}
	q := queries.TopQuery{Window: w, N: int(n), Prefix: o.prefix, At: o.at, Fresh: o.fresh, Scope: o.scope}
	if err := s.enterQuestions(); err != nil {
		return err
	}
	answer, err := s.server.service.Top(s.ctx, s.caller, q)
	if err != nil {
		return err
	}
	s.fields(2, &answer.Freshness)
	s.field("keys").Array(len(answer.Keys))
	for i := range answer.Keys {
		k := &answer.Keys[i]
		s.out.Array(4)
		s.out.Bulk(k.Key)
		s.writeBounds(&k.Bounds)
	}
	s.writeFreshness(&answer.Freshness)
	return nil
}

// writeBounds writes lower, estimate and upper.
func (s *session) writeBounds(b *api.Bounds) {
	s.out.Uint(b.Lower)
	s.out.Uint(b.Estimate)
	s.out.OptionalUint(b.Upper)
}
