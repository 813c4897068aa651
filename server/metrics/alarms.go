package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-counter/weir/api"
)

// alarmCollector has one series for each code that is on.
type alarmCollector struct {
	alarms func() []api.Alarm
	desc   *prometheus.Desc
}

func newAlarmCollector(alarms func() []api.Alarm) *alarmCollector {
	return &alarmCollector{alarms, prometheus.NewDesc("weir_alarm", "1 while something is wrong: /readyz says what. There is no series while nothing is.", []string{"code"}, nil)}
}

func (c *alarmCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *alarmCollector) Collect(out chan<- prometheus.Metric) {
	said := map[string]bool{}
	for _, a := range c.alarms() {
		if !said[a.Code] { // there may be one for each of several nodes
			said[a.Code] = true
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, 1, a.Code)
		}
	}
}
