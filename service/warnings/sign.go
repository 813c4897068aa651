package warnings

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A secret has from least to most bytes.
const (
	leastSecret = 24
	mostSecret  = 64
)

// ParseSecret reads the secret that calls are signed with, as https://www.standardwebhooks.com has it: whsec_ and 24 to 64 bytes in base64.
func ParseSecret(text string) ([]byte, error) {
	encoded, prefixed := strings.CutPrefix(strings.TrimSpace(text), "whsec_")
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !prefixed || err != nil || len(secret) < leastSecret || len(secret) > mostSecret {
		return nil, errors.New("it is not whsec_ and 24 to 64 random bytes in base64: make one with `echo whsec_$(openssl rand -base64 32)`")
	}
	return secret, nil
}

// sign adds the header fields of Standard Webhooks (https://www.standardwebhooks.com) for an attempt at a time: id, time and body are
// signed together, with HMAC-SHA256.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", seconds)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
