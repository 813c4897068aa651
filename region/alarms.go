package region

import (
	"fmt"
	"time"
)

// Alarm is something that is wrong now.
type Alarm struct{ Code, Message string }

// alarmAfter is how long something that may pass must last to be an alarm.
const alarmAfter = 15 * time.Second

// Alarms are what is wrong now. It waits for nobody.
func (r *Region) Alarms() (list []Alarm) {
	add := func(code, format string, args ...any) { list = append(list, Alarm{code, fmt.Sprintf(format, args...)}) }
	f := r.Figures()
	if f.Failure != "" && f.Failing > alarmAfter {
		add("region_log_failing", "the log of digests can't be written or read (%s), so other regions have nothing newer of this one, and this one nothing newer of them. What is counted here is safe, and follows once it can", f.Failure)
	}
	if lost := f.Damaged + f.Unread + f.Missing; lost > 0 {
		add("region_divergence", "hits are missing in counts of all regions: %d messages of the log of digests could not be read, %d parts of flushes were lost by the journal, %d messages could not be counted (since the start; the log says which)", f.Damaged, f.Unread, f.Missing)
	}
	for _, s := range r.Regions() {
		switch {
		case s.Own || s.Gone:
		case s.Epoch == 0:
			add("region_unknown", "nothing came of region %s yet, to which there is a link: counts of all regions lack its hits", s.Name)
		case s.Behind && s.Heard > alarmAfter:
			add("region_late", "nothing came of region %s for %v: counts of all regions lack its newer hits. If it is gone for good: weir region forget %s", s.Name, s.Heard.Round(time.Second), s.Name)
		case s.Behind && time.Since(s.AsOf) > alarmAfter:
			add("region_late", "what came of region %s is %v old: counts of all regions lack its newer hits", s.Name, time.Since(s.AsOf).Round(time.Second))
		}
		if s.Wrong > 0 {
			add("region_divergence", "%d batches of region %s do not go on from those before them: counts of all regions may lack hits of it", s.Wrong, s.Name)
		}
	}
	for _, name := range r.namesTwice() {
		add("region_name_twice", "two regions have the name %s, and take each other's place in all counts: give one of them another --region and an empty data directory", name)
	}
	for _, l := range r.Links() {
		if f.Owner && !l.Up && l.Why != "" && l.For > alarmAfter {
			add("region_link_down", "the link to region %s (%s) is down for %v: %s", l.Region, l.URL, l.For.Round(time.Second), l.Why)
		}
	}
	return list
}
