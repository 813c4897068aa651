package replica

import "testing"

// Disks fail in all ways, one after the other: what was acknowledged stays, a replica
// that failed to store does so until it is restarted, and nothing is acknowledged
// while most have failed.
func TestDisks(t *testing.T) {
	nodes := []string{"a", "b", "c"}
	w := NewWorld(5)
	n := NewNetwork(w, Faults{Usual: 1e6})
	l := NewLog(w, n, nodes)
	acked := uint64(0)
	publish := func() {
		for _, node := range nodes {
			l.Publish(node, []byte{1}, func(sequence uint64) { acked = max(acked, sequence) })
			w.Run(3 * slowest)
		}
	}
	crash := func(node string) {
		n.SetDown(node, true)
		l.Crash(node)
		publish()
		n.SetDown(node, false)
		l.Restart(node)
	}
	for _, disk := range []Disk{DiskFull, DiskBroken, DiskSlow, DiskTorn, DiskLying, DiskSound} {
		for _, node := range nodes {
			before := acked
			if !l.SetDisk(node, disk) {
				t.Fatalf("disk %d of %s is not set", disk, node)
			}
			publish()
			if acked == before {
				t.Errorf("disk %d of %s: nothing is acknowledged", disk, node)
			}
			if stores, _, _ := l.Stores(node); stores != l.HasSpace(node) {
				t.Errorf("disk %d of %s: it stores: %v", disk, node, stores)
			}
			if disk == DiskBroken {
				if _, err := l.Get(node, acked); err != nil { // another replica answers
					t.Error(err)
				}
			}
			crash(node)
			if disk == DiskLying && l.SetDisk(nodes[0], disk) && l.SetDisk(nodes[1], disk) {
				t.Error("two disks lie at a time")
			}
			for _, other := range nodes {
				l.SetDisk(other, DiskSound)
			}
			if stores, _, _ := l.Stores(node); stores != (disk != DiskFull && disk != DiskBroken) {
				t.Errorf("disk %d of %s: it stores again by itself", disk, node)
			}
			l.Restart(node)
			w.Run(3 * catchUpEvery)
			if stores, have, replica := l.Stores(node); !stores || !replica || have != l.Last() || have < acked {
				t.Errorf("disk %d of %s: %v, up to %d of %d", disk, node, stores, have, l.Last())
			}
		}
	}
	before := acked
	l.SetDisk("a", DiskFull)
	l.SetDisk("b", DiskFull)
	publish()
	if acked != before || l.Led() {
		t.Error("it is acknowledged by one of three")
	}
	if _, _, replica := l.Stores("d"); replica || l.SetDisk("d", DiskFull) || !l.HasSpace("d") {
		t.Error("a node without a replica has a disk")
	}
	l.Restart("d")
	l.Crash("d")
}

// A crash takes nothing from a log that has nothing, and adds nothing.
func TestTornDiskOfAnEmptyLog(t *testing.T) {
	w := NewWorld(6)
	l := NewLog(w, NewNetwork(w, Faults{Usual: 1e6}), []string{"a", "b"})
	for _, node := range []string{"a", "b"} {
		l.SetDisk(node, DiskTorn)
		l.Crash(node)
		if _, have, _ := l.Stores(node); have != 0 {
			t.Errorf("after a crash %s has %d messages of an empty log", node, have)
		}
	}
	if !l.Led() {
		t.Error("an empty log has no leader after crashes")
	}
}
