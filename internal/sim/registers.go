package sim

// Registers are values by name, kept as a Log keeps its messages, and replaced
// only by who knows the one that is there.
type Registers struct {
	log    *Log
	values map[string]Register
	made   uint64
}

// Register is a value and its revision, which grows; 0: there is none.
type Register struct {
	Value    any
	Revision uint64
}

// NewRegisters are as available as the log is.
func NewRegisters(log *Log) *Registers {
	return &Registers{log: log, values: map[string]Register{}}
}

// Put replaces a value of a revision, some time later and perhaps never. done runs
// at its node, if the answer comes, with the new revision; 0: another was faster.
func (rs *Registers) Put(node, name string, known uint64, value any, done func(revision uint64)) {
	leader := rs.log.leaderFor(node)
	if leader == nil {
		return
	}
	rs.log.net.Send(node, leader.node, func() {
		if rs.log.leader() == nil {
			return
		}
		revision := uint64(0)
		if rs.values[name].Revision == known {
			rs.made++
			revision = rs.made
			rs.values[name] = Register{value, revision}
		}
		rs.log.net.Send(leader.node, node, func() { done(revision) })
	})
}

// Get reads a value.
func (rs *Registers) Get(node, name string) (Register, error) {
	if rs.log.leaderFor(node) == nil {
		return Register{}, ErrUnreachable
	}
	return rs.values[name], nil
}

// Look is the value of a name, whoever can reach it; nil: there is none.
func (rs *Registers) Look(name string) any { return rs.values[name].Value }

// Spoil changes a value that is there, as a disk does: nobody is told, and the revision
// stays.
func (rs *Registers) Spoil(name string, spoil func(value any) any) {
	if at := rs.values[name]; at.Revision > 0 {
		rs.values[name] = Register{spoil(at.Value), at.Revision}
	}
}
