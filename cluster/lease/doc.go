// Package lease lets one node of many do what only one should: take a
// partition's snapshots, trim the journal, restore a backup.
//
// A lease is a key in a JetStream KV bucket whose messages age. Create takes it,
// for it fails where a key is; Update at the known revision renews it; who
// renews no more loses it when its message has aged. The revision at which a
// lease was taken is its token: each holder's is greater than those before.
//
// The age is the bucket's, not the message's: a client that updates a key can't
// give a time to live (ADR-48), so that a lease that was created with one and
// renewed once would never end.
//
// Two clocks are at work, and the holder's is the stricter: it counts from
// before it asked, on its own monotonic clock, and only two thirds of the time
// that the bucket grants. The last third is for clocks of servers that differ,
// since a new leader of the bucket goes by its own. A holder that is cut off, or
// stopped, thus knows that the lease is lost before another can have it. One that crashed has
// it again at once: who has its data directory, which is locked, knows that it has ended. Between
// looking and acting time may pass anyway: where that matters, the token
// goes with what is written, and the smaller token loses.
package lease
