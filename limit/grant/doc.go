// Package grant lends parts of a limit to nodes, so that they decide by themselves, and never
// exceeds it. It is pure: no clock, lock, network or journal.
//
// One node holds a key: it has a Book. Any node that is asked for the key, the holder too, has a
// Credit. A node asks (Ask) and is answered (Answer) over a network that loses, delays and repeats.
// The counters of both are totals of one grant, so a repeat changes nothing:
//
//	granted   admissions that the holder has lent, ever
//	used      of these, what the node has admitted
//	returned  of these, what it has given back: it never uses them
//
// What is out is granted - used - returned, as the holder knows it. The one rule is
//
//	used of the limit + all that is out <= burst, whenever something is lent or admitted
//
// It is enough: each admission was out when it was made, or was decided by the holder. From then on
// it is out until the node reports it, and counts as used at a time that is not before it was made. So
// whatever interval T ends now, its admissions are among what is out and what the limit counts.
//
// A grant ends after Terms.Life without an answer. The node counts that from before it sent the
// question, by its own monotonic clock; the holder from when it answers, and Margin longer. So the
// node's end is first, however long the messages took. What is out at the end stays out for a
// further T: it may have been used at the last moment. A report that comes meanwhile still
// settles it. A report of another grant, or another holder's, settles nothing.
//
// A holder must make sure before it answers that the next holder knows what is out (Book.Own), and that
// it is the holder still.
package grant
