package httpapi

import "testing"

func TestOriginSettings(t *testing.T) {
	for _, cfg := range []GuardConfig{
		{Hosts: []string{"https://a"}}, {Hosts: []string{"a:80"}}, {Hosts: []string{""}}, {Hosts: []string{"a.*.b"}},
		{Origins: []string{"*"}}, {Origins: []string{"a.example.com"}}, {Origins: []string{"https://a/"}}, {Origins: []string{"null"}},
	} {
		if err := cfg.Validate(); err == nil {
			t.Errorf("taken: %v %v", cfg.Hosts, cfg.Origins)
		}
	}
}
