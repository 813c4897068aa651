package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/service/backend"
)

// regionCollector says of each region how much of it is counted here. There are as many series as regions and links.
type regionCollector struct {
	regions                              backend.Regions
	late, age, lag, bytes, wrong, digest *prometheus.Desc
	up, received, retries                *prometheus.Desc
	sent, behind                         *prometheus.Desc
	owner, feeds, damaged, unread, lost  *prometheus.Desc
}

func newRegionCollector(of backend.Regions) *regionCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weir_region_"+name, help, labels, nil)
	}
	return &regionCollector{
		regions:  of,
		late:     desc("late", "1 for a region of which newer hits may be missing.", "region"),
		age:      desc("age_seconds", "Seconds since when hits of a region may be missing here, by its clock.", "region"),
		lag:      desc("lag_seconds", "Seconds from the time up to which the last digest of a region has its hits until that came.", "region"),
		bytes:    desc("digest_bytes_total", "Bytes of a region's digests and bases in the log.", "region"),
		wrong:    desc("audit_wrong_total", "Batches of a region whose running total was not the next one: 0, unless something is lost.", "region"),
		digest:   desc("digest", "Number of the last digest of a region in its epoch.", "region"),
		up:       desc("link_up", "1 for a link that is up. Only the owner has links.", "region"),
		received: desc("link_received_bytes_total", "Bytes that came over a link.", "region"),
		retries:  desc("link_retries_total", "Attempts to connect a link that failed.", "region"),
		owner:    desc("owner", "1 on the node that writes the region's digests and has its links."),
		feeds:    desc("feeds", "Other regions that pull from this node now."),
		sent:     desc("feed_bytes_total", "Bytes sent to another region.", "region"),
		behind:   desc("feed_behind", "Messages of the log that another region, which pulls now, is still to be sent.", "region"),
		damaged:  desc("log_damaged_total", "Messages of the log of digests that could not be read."),
		unread:   desc("journal_unread_total", "Parts of flushes that the journal lost, and no digest has."),
		lost:     desc("log_uncounted_total", "Messages that the windows of other regions could not take."),
	}
}

func (c *regionCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.late, c.age, c.lag, c.bytes, c.wrong, c.digest, c.up, c.received, c.retries, c.sent, c.behind, c.owner, c.feeds, c.damaged, c.unread, c.lost} {
		out <- d
	}
}

func (c *regionCollector) Collect(out chan<- prometheus.Metric) {
	set := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	for _, r := range c.regions.Regions() {
		if r.Gone {
			continue
		}
		set(c.late, gauge, oneIf(r.Behind), r.Name)
		if r.Epoch == 0 {
			continue
		}
		set(c.age, gauge, r.Age.Seconds(), r.Name)
		set(c.lag, gauge, r.Lag.Seconds(), r.Name)
		set(c.bytes, counter, float64(r.Bytes), r.Name)
		set(c.wrong, counter, float64(r.Wrong), r.Name)
		set(c.digest, gauge, float64(r.Digest), r.Name)
	}
	f := c.regions.Figures()
	if f.Owner {
		for _, l := range c.regions.Links() {
			set(c.up, gauge, oneIf(l.Up), l.Region)
			set(c.received, counter, float64(l.Bytes), l.Region)
			set(c.retries, counter, float64(l.Retries), l.Region)
		}
	}
	set(c.owner, gauge, oneIf(f.Owner))
	set(c.feeds, gauge, float64(f.Feeds))
	for _, p := range c.regions.Pulls() {
		set(c.sent, counter, float64(p.Bytes), p.Region)
		set(c.behind, gauge, float64(p.Behind), p.Region)
	}
	set(c.damaged, counter, float64(f.Damaged))
	set(c.unread, counter, float64(f.Unread))
	set(c.lost, counter, float64(f.Missing))
}

// globalCollector tells of limits that regions share without parts: two series for each policy.
type globalCollector struct {
	policies   *admit.Live
	over, late *prometheus.Desc
}

func newGlobalCollector(policies *admit.Live) *globalCollector {
	return &globalCollector{
		policies: policies,
		over:     prometheus.NewDesc("weir_limit_regions_over", "Of a limit that regions share without parts: the most admissions of all regions of one key that were more than its burst, as this node found at a denial since its start. Take the largest of all nodes.", []string{"limit"}, nil),
		late:     prometheus.NewDesc("weir_limit_regions_late_total", "Decisions of such a limit while newer admissions of another region may have been missing.", []string{"limit"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *globalCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.over
	out <- c.late
}

// Collect implements prometheus.Collector.
func (c *globalCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.policies.Set().Policies() {
		if !p.Global {
			continue
		}
		now := c.policies.Global(p.Name)
		out <- prometheus.MustNewConstMetric(c.over, prometheus.GaugeValue, float64(now.Over), p.Name)
		out <- prometheus.MustNewConstMetric(c.late, prometheus.CounterValue, float64(now.Late), p.Name)
	}
}
