package shadow

import (
	"bufio"
	"io"
	"strconv"
	"time"

	"github.com/weir-counter/weir/policy"
	"github.com/weir-counter/weir/replay"
)

// DeniedHeader is the first line of what Options.Denied gets: the columns, with tabs
// between them. A row follows for each limit that denied a line. time is the line's own
// (RFC 3339); mode is shadow if the request was not denied but would have been;
// retry_after_s is how long the key would have had to wait from the decision on; n is how
// many requests of the line were denied. Characters of a key that are not printable are
// escaped as in Go.
const DeniedHeader = "time\tlimit\tmode\tkey\tretry_after_s\tn\n"

// deniedWriter writes denials. Flush tells the errors.
type deniedWriter struct {
	*bufio.Writer
	line []byte
}

func newDeniedWriter(w io.Writer) *deniedWriter {
	d := &deniedWriter{Writer: bufio.NewWriterSize(w, 64<<10)}
	_, _ = d.WriteString(DeniedHeader) // its error stays, and comes back from Flush
	return d
}

func (d *deniedWriter) write(at int64, q *question) {
	a := q.rule.account
	mode := policy.Enforce
	if a.shadow {
		mode = policy.Shadow
	}
	b := time.Unix(at, 0).UTC().AppendFormat(d.line[:0], time.RFC3339)
	b = append(append(append(append(b, '\t'), a.policy.Name...), '\t'), mode.String()...)
	b = append(append(append(b, '\t'), replay.Printable(q.key)...), '\t')
	b = append(strconv.AppendFloat(b, q.retry.Seconds(), 'f', 3, 64), '\t')
	b = append(strconv.AppendUint(b, q.denied*q.times, 10), '\n')
	d.line = b
	_, _ = d.Write(b) // as above
}
