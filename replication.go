package weir

// Replication is the side of an Engine that a journal and a cluster use: what was counted
// here and is not stored yet (Cut), what was stored or counted elsewhere (Apply and their
// like), and which partitions this engine holds. Weir's own packages use it; a program
// that counts and limits needs none of it.
//
// A partition is a fixed share of the key space. All its hits go through cuts, each in one
// of them, in the order of the journal; so nodes that apply the same cuts have the same
// counts.
type Replication struct{ engine *Engine }

// Replication is for whoever stores what the engine counts, or brings what others did.
func (e *Engine) Replication() *Replication { return &e.replication }

// PartitionOf is the number of the key's partition. It depends on the key and the number
// of partitions alone: nodes must agree on it.
func (r *Replication) PartitionOf(key string) int { return r.engine.partitionOf(key) }
