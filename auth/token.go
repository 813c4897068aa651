package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"
)

const (
	tokenMark   = "weir_" // so that scanners of leaked secrets know one
	idBytes     = 10      // letters of an id: 50 random bits
	maxTokenLen = 256     // longer texts are no tokens, and cost no hash
)

// sum is the SHA-256 of a token.
type sum = [sha256.Size]byte

// Token is what the file has of a token.
type Token struct {
	ID      string
	Created time.Time // zero: not said
	Expires time.Time // zero: never
	sum     sum
}

// Expired tells whether a token is no longer good.
func (t *Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// newToken makes a token: its text, which is told once, and what the file has of it.
func newToken(now, expires time.Time) (text string, t Token) {
	id := strings.ToLower(rand.Text()[:idBytes])
	text = tokenMark + id + "_" + strings.ToLower(rand.Text()+rand.Text())
	return text, Token{ID: id, Created: now.UTC().Truncate(time.Second), Expires: expires, sum: sha256.Sum256([]byte(text))}
}

// idOf is the id in the text of a token.
func idOf(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, tokenMark)
	if !ok || len(text) > maxTokenLen {
		return "", false
	}
	id, secret, ok := strings.Cut(rest, "_")
	return id, ok && isID(id) && secret != ""
}

func isID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c && c <= 'z') && !('0' <= c && c <= '9') {
			return false
		}
	}
	return id != "" && len(id) <= 32
}
