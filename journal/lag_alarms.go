package journal

import "github.com/weir-counter/weir/journal/replica"

// lagAlarms tell of each node whose hits may be missing here, and of this one where what
// it takes does not reach the journal. A node stays in service meanwhile: its answers say
// what they lack.
func (j *Journal) lagAlarms() (alarms []replica.Alarm) {
	_, late := j.Freshness()
	spent := j.space.Room().Spent(j.space.Retained())
	for _, o := range late {
		if o.Self && j.stats.failing() {
			continue // flushAlarms says so
		}
		alarms = append(alarms, replica.LateAlarm(o, spent))
	}
	return alarms
}
