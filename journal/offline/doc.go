// Package offline works on data directories that no process uses: it verifies one (Verify), makes
// one out of a backup (Restore), and makes one fit another way to run (Carry): alone or in a
// cluster, with another retention or number of partitions.
//
// Invariants: Verify changes no file of the directory; a Restore that fails leaves
// nothing behind; a Carry that is cut off goes on at the next start, and what the directory had
// before is there until the new one has all on its disks.
//
// Package datadir has the lock and the files, packages backup and restore the backup that everything
// goes by. Package journal carries a directory over before it opens it, and fills a new one (Fill).
package offline
