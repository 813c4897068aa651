// Package link is how digests travel between regions: a GET of another region's HTTP door, whose answer lasts. The
// request says what the one who asks has, by region; the answer is frames, each a message of package digest, or empty
// while there is nothing to say. TCP's window, not the round trip, bounds what comes.
//
// Invariant: an answer that ends or is silent is an error within SilentAfter: then there is a new request.
package link
