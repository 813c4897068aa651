package alerts

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/engine"
	"github.com/weir-counter/weir/internal/filewatch"
	"github.com/weir-counter/weir/internal/pattern"
	"github.com/weir-counter/weir/internal/topics"
	"github.com/weir-counter/weir/internal/units"
	"github.com/weir-counter/weir/window"
	"go.yaml.in/yaml/v4"
)

const (
	maxFile  = 1 << 20
	maxRules = 100
)

// rules are a file of alerts. They do not change.
type rules struct {
	content filewatch.Hash
	list    []rule
}

// rule is one alert: of counts, or of warnings.
type rule struct {
	name  string
	keys  pattern.Pattern // of warnings the names of limits
	exact string          // the only key; "": keys has wildcards
	warns bool            // it is of warnings

	window       time.Duration
	below        bool // else above
	bound, clear uint64

	spec destinationSpec
	to   *destination
}

// crossed reports whether a count between low and high is beyond the bound for certain.
func (r *rule) crossed(low, high uint64) bool {
	if r.below {
		return high < r.bound
	}
	return low > r.bound
}

// cleared reports whether it is back for certain.
func (r *rule) cleared(low, high uint64) bool {
	if r.below {
		return low >= r.clear
	}
	return high <= r.clear
}

// destinationSpec is a destination as the file has it.
type destinationSpec struct{ name, url, headerFile, secretFile string }

// file is a file of alerts as it is written.
type file struct {
	To []struct {
		Name       string `yaml:"name"`
		URL        string `yaml:"url"`
		HeaderFile string `yaml:"header_file"`
		SecretFile string `yaml:"secret_file"`
	} `yaml:"to"`
	Alerts []alert `yaml:"alerts"`
}

type alert struct {
	Name   string  `yaml:"name"`
	Keys   string  `yaml:"keys"`
	Limits string  `yaml:"limits"`
	Window string  `yaml:"window"`
	Above  *uint64 `yaml:"above"`
	Below  *uint64 `yaml:"below"`
	Clear  *uint64 `yaml:"clear"`
	To     string  `yaml:"to"`
}

// parse reads a file.
func parse(path string, data []byte, insecure bool) (*rules, error) {
	var f file
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	if err := yaml.Load(data, &f, yaml.WithKnownFields()); err != nil {
		if all, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(all.Errors) > 0 {
			first, _, _ := strings.Cut(all.Errors[0].Message, " in type ")
			return nil, fmt.Errorf("%s:%d: %s", path, max(all.Errors[0].Mark.Line, 1), first)
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(f.Alerts) == 0 || len(f.Alerts) > maxRules {
		return nil, fmt.Errorf("%s: %d alerts: write 1 to %d below `alerts:`, a pattern like \"url:*\" is one alert for many keys", path, len(f.Alerts), maxRules)
	}
	to := map[string]destinationSpec{}
	for i, d := range f.To {
		s := destinationSpec{d.Name, d.URL, d.HeaderFile, d.SecretFile}
		err := s.check(insecure)
		if _, has := to[s.name]; has || s.name == "" {
			err = errors.New("each destination has a name of its own")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: destination %d (%s): %w", path, i+1, s.name, err)
		}
		to[s.name] = s
	}
	all, names := &rules{content: filewatch.HashOf(data)}, map[string]bool{}
	for i, a := range f.Alerts {
		r, err := a.rule()
		has := false
		if r.spec, has = to[a.To]; !has && err == nil {
			err = fmt.Errorf("to: no destination has the name %q: add it below `to:`", a.To)
		}
		if names[a.Name] || a.Name == "" {
			err = errors.New("each alert has a name of its own")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: alert %d (%s): %w", path, i+1, a.Name, err)
		}
		names[a.Name] = true
		all.list = append(all.list, r)
	}
	return all, nil
}

// rule checks an alert. Without clear it is a tenth on the other side of the bound.
func (a *alert) rule() (r rule, err error) {
	r = rule{name: a.Name, warns: a.Limits != ""}
	if r.keys, err = pattern.Parse(cmp.Or(a.Limits, a.Keys)); err != nil {
		return r, fmt.Errorf("keys: %w", err)
	}
	if r.warns {
		if a.Keys != "" || a.Window != "" || a.Above != nil || a.Below != nil || a.Clear != nil {
			err = errors.New("an alert of limits goes by the `warn` of their policies: leave out keys, window, above, below and clear")
		}
		return r, err
	}
	if !strings.ContainsAny(a.Keys, "*{") {
		r.exact = a.Keys
	}
	if r.window, err = units.ParseDuration(a.Window); err != nil || r.window < time.Second || r.window > window.MaxSeconds*time.Second || r.window%time.Second != 0 {
		return r, fmt.Errorf("window %q: write whole seconds, such as 5m", a.Window)
	}
	switch {
	case (a.Above == nil) == (a.Below == nil):
		return r, errors.New("write either above or below, such as `above: 1000`")
	case a.Above != nil:
		r.bound, r.clear = *a.Above, *a.Above-*a.Above/10
	default:
		r.below, r.bound, r.clear = true, *a.Below, *a.Below+*a.Below/10
	}
	if a.Clear != nil {
		r.clear = *a.Clear
	}
	switch {
	case r.below && r.bound == 0:
		return r, errors.New("no count is below 0: write 1 for keys without hits")
	case r.below && r.clear < r.bound, !r.below && r.clear > r.bound:
		return r, fmt.Errorf("clear: %d is on the side of the alert: write %d, or a number farther from it", r.clear, r.bound)
	}
	return r, nil
}

// web reports whether it is a webhook.
func (s *destinationSpec) web() bool {
	return strings.HasPrefix(s.url, "https://") || strings.HasPrefix(s.url, "http://")
}

// check returns what is wrong, without the URL: that may be secret.
func (s *destinationSpec) check(insecure bool) error {
	if !s.web() {
		if s.headerFile != "" || s.secretFile != "" {
			return fmt.Errorf("header_file and secret_file are for webhooks: leave them out")
		}
		_, err := topics.NewWriter(s.url, insecure)
		return err
	}
	to, err := url.Parse(s.url)
	switch {
	case err != nil || to.Host == "" || to.User != nil || to.Fragment != "":
		return fmt.Errorf("write https://HOST/PATH, without a name and a password: header_file can have them")
	case to.Scheme == "http" && !insecure && !transport.Loopback(to.Hostname()):
		return fmt.Errorf("events to %s would go in the clear: write https://, or say --insecure-peers", to.Host)
	}
	if _, err := s.header(); err != nil {
		return err
	}
	_, err = s.secret()
	return err
}

// countRange is the lowest and the highest number that a count may be. Where it has no upper bound, though no node is late, the estimate decides.
func countRange(c *engine.Count, late bool) (low, high uint64) {
	switch {
	case late:
		return c.Lower, math.MaxUint64
	case !c.HasUpper():
		return c.Lower, c.Estimate
	}
	return c.Lower, c.Upper
}
