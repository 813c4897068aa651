package replay

import "bytes"

// Places of the fields of an Apache or nginx log in line.fields.
const (
	clfHost = iota
	clfIdent
	clfUser
	clfTime
	clfRequest
	clfMethod
	clfPath
	clfProto
	clfStatus
	clfBytes
	clfReferer
	clfAgent
	clfFieldCount
)

var clfFieldNames = [clfFieldCount]string{
	"host", "ident", "user", "time", "request", "method", "path", "proto", "status", "bytes", "referer", "agent",
}

// clfParser reads the common log format and the combined one, which adds the
// referer and the agent:
//
//	host ident user [time] "request" status bytes "referer" "agent"
//
// The host, the time, the quoted request and the status must be there; what
// follows may be missing. Values are kept as they are written: no %-decoding,
// no unescaping, "-" stays "-".
type clfParser struct {
	clock clfClock
	// tail and user say that some template asks for a field after the status,
	// or between host and time: most do not, and then these are not looked at.
	tail, user bool
}

func newCLFParser(used func(field int) bool) *clfParser {
	return &clfParser{
		tail: used(clfBytes) || used(clfReferer) || used(clfAgent),
		user: used(clfIdent) || used(clfUser),
	}
}

func (p *clfParser) parse(b []byte, l *line) error {
	f := l.fields[:clfFieldCount]
	space := bytes.IndexByte(b, ' ')
	if space <= 0 {
		return errNoHost
	}
	f[clfHost] = b[:space]
	at, open, err := p.findTime(b, space)
	if err != nil {
		return err
	}
	l.at, l.n = at, 1
	f[clfTime] = b[open+1 : open+1+clfTimeLen]
	if p.user {
		splitUser(b[space+1:open], f)
	}

	rest := b[open+1+clfTimeLen+1:] // after the ']'
	if len(rest) < 2 || rest[0] != ' ' || rest[1] != '"' {
		return errNoRequest
	}
	rest = rest[2:]
	end, err := requestEnd(rest)
	if err != nil {
		return err
	}
	splitRequest(rest[:end], f)
	rest = rest[end+2:] // after the '"' and the ' '
	f[clfStatus], rest = word(rest)
	if p.tail {
		splitTail(rest, f)
	}
	return nil
}

// findTime looks for [time] after the host. A user name may hold spaces and
// brackets, so each bracket is tried.
func (p *clfParser) findTime(b []byte, from int) (at int64, open int, err error) {
	for {
		i := bytes.IndexByte(b[from:], '[')
		if i < 0 {
			return 0, 0, errNoTime
		}
		open = from + i
		t := b[open+1:]
		if len(t) > clfTimeLen && t[clfTimeLen] == ']' {
			if at, ok := p.clock.parse(t); ok {
				if !inRange(at) {
					return 0, 0, errTimeRange
				}
				return at, open, nil
			}
		}
		from = open + 1
	}
}

// requestEnd finds the quote that closes the request: one that a status
// follows. Servers write a quote inside a request as \" or \x22, but old ones
// did not, so any other quote belongs to the request.
func requestEnd(b []byte) (int, error) {
	from, quotes := 0, false
	for {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			if quotes {
				return 0, errNoStatus
			}
			return 0, errNoRequest
		}
		end := from + i
		if isStatus(b[end+1:]) {
			return end, nil
		}
		from, quotes = end+1, true
	}
}

// isStatus tells whether b begins with a space, a status (three digits or -),
// and then ends or goes on after a space.
func isStatus(b []byte) bool {
	if len(b) >= 4 && b[0] == ' ' && isDigit(b[1]) && isDigit(b[2]) && isDigit(b[3]) {
		return len(b) == 4 || b[4] == ' '
	}
	if len(b) >= 2 && b[0] == ' ' && b[1] == '-' {
		return len(b) == 2 || b[2] == ' '
	}
	return false
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// splitRequest cuts `GET /path HTTP/1.1`: the path is the second word whether
// or not a protocol follows; the protocol is the last word if it reads so.
func splitRequest(b []byte, f [][]byte) {
	f[clfRequest] = b
	f[clfMethod], f[clfPath], f[clfProto] = nil, nil, nil
	if len(b) == 0 || (len(b) == 1 && b[0] == '-') {
		return
	}
	f[clfMethod], b = word(b)
	f[clfPath], b = word(b)
	if len(b) == 0 {
		return
	}
	last := b[bytes.LastIndexByte(b, ' ')+1:]
	if bytes.HasPrefix(last, []byte("HTTP/")) {
		f[clfProto] = last
	}
}

// splitUser cuts `ident user `, where the user may hold spaces.
func splitUser(b []byte, f [][]byte) {
	f[clfIdent], b = word(b)
	f[clfUser] = nilIfEmpty(bytes.TrimRight(b, " "))
}

// splitTail cuts `bytes "referer" "agent"`.
func splitTail(b []byte, f [][]byte) {
	f[clfBytes], b = word(b)
	f[clfReferer], b = quoted(b)
	f[clfAgent], _ = quoted(b)
}

// word cuts the first word off b. It is nil when there is none.
func word(b []byte) (w, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return nilIfEmpty(b[:i]), b[i+1:]
	}
	return nilIfEmpty(b), nil
}

// quoted cuts a string in quotes off b, and the space after it. The quotes
// inside are those that follow a backslash. It is nil when there is none.
func quoted(b []byte) (s, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i], bytes.TrimPrefix(b[i+1:], []byte(" "))
		}
	}
	return nil, nil
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
