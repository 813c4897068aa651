// Package replica is what a node decides of the journal, in pure code: it cuts flushes
// from its engine, follows those of all nodes (audit, repair, hand-off of partitions),
// says how fresh its answers are, when snapshots are due and how the data directory's
// room is shared out, and whose clock is wrong. Follower is the loop that follows the journal,
// TakeOver the hand-off of partitions.
//
// Pure means: no NATS, no file, no clock that is read (now is an argument) and no
// goroutine that outlives a call. So the journal drives it with real clocks, networks
// and disks, and the simulation (sim_test.go) with seeded ones that fail. TakeOver waits, by what
// it is given to wait with.
//
// Invariants:
//   - A batch counts once: (origin, epoch, seq) go on without a hole, a repeat is
//     dropped, a gap is asked for, and the running totals of the origin must agree.
//   - A flush counts as a whole or not at all, in the order of the journal.
//   - A snapshot has what its positions say, and is stored once its own hits came back.
//   - Nothing that frees room in the journal waits for room (Room).
//   - What is late is named: an answer never claims a node's hits that are not here.
//
// Neighbours: package record has the bytes; package journal has the goroutines and the
// messages; packages above it have NATS.
package replica
