package weir

import "github.com/weir-counter/weir/internal/replication"

func (r *side) Admissions(c replication.Content) (list []replication.Admission, err error) {
	return r.engine.limits.Admissions(c.Limits)
}

func (r *side) ApplyAdmissions(partition int, list []replication.Admission) error {
	return r.engine.limits.ApplyAll(partition, list, false)
}

func (r *side) FollowAdmissions(partition int, list []replication.Admission) error {
	return r.engine.limits.ApplyAll(partition, list, true)
}

func (r *side) ApplyShared(partition int, list []replication.Admission) error {
	return r.engine.limits.ApplyShared(partition, list)
}
