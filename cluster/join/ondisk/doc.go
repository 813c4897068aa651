// Package ondisk reads the files of an embedded server of a cluster while it does
// not run, and says what of them is damaged.
//
// It is there because the server forgives too much. What it can't read it cuts
// off or passes over, and starts; elected leader of a stream anyway, it makes
// the other replicas throw away what it does not have. So a replica is read
// before its server may vote, and one that is damaged does not start.
//
// The files are those of nats-server 2.15: blocks of records, each with a
// checksum (blocks.go), for streams and for the logs that they are replicated by
// (raftlog.go). A server that writes them otherwise fails the tests here.
package ondisk
