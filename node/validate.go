package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	weir "github.com/weir-counter/weir"
	"github.com/weir-counter/weir/internal/settings"
)

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside
// what it may be, with its part: Journal.FlushEvery, HTTP.Addr. Start does the same, before it
// opens anything. Files that fields name are not read, but for the cluster's secret.
func (cfg Config) Validate() error { return cfg.withDefaults().validate() }

func (cfg Config) validate() error {
	if cfg.CloseTimeout < 0 {
		return settings.Invalid("CloseTimeout", fmt.Sprintf("CloseTimeout of %v: must be above 0s", cfg.CloseTimeout))
	}
	if err := cfg.Service.Validate(); err != nil {
		return in("Service", err)
	}
	if err := cfg.RESP.Validate(); err != nil {
		return in("RESP", err)
	}
	if err := cfg.RLS.Validate(); err != nil {
		return in("RLS", err)
	}
	if err := cfg.StatsD.Validate(); err != nil {
		return in("StatsD", err)
	}
	if err := cfg.HTTP.Validate(cfg.Service.DurableTimeout); err != nil {
		return in("HTTP", err)
	}
	if !slices.Contains(PoliciesAPI, cfg.Policies.API) {
		return settings.Invalid("Policies.API", fmt.Sprintf("%q: must be %s", cfg.Policies.API, strings.Join(PoliciesAPI, ", ")))
	}
	if err := cfg.validateWarnings(); err != nil {
		return err
	}
	if err := cfg.validateLocks(); err != nil {
		return err
	}
	if err := cfg.validateStatsD(); err != nil {
		return err
	}
	if err := cfg.validateJournal(); err != nil {
		return err
	}
	if err := cfg.validateHistory(); err != nil {
		return err
	}
	return in("Engine", cfg.Engine.Validate())
}

func (cfg Config) validateJournal() error {
	if cfg.Ephemeral {
		if cfg.clustered() || cfg.Journal.Replicas > 0 {
			return settings.Invalid("Ephemeral", "nodes count together by their journals, and an ephemeral one has none: leave out Ephemeral, or Journal.Join and Journal.Replicas")
		}
		if cfg.Regions.Region != "" {
			return settings.Invalid("Ephemeral", "regions count together by their journals, and an ephemeral node has none: leave out Ephemeral, or Regions")
		}
		return nil
	}
	if err := cfg.validateRegions(); err != nil {
		return err
	}
	if err := cfg.Journal.Validate(); err != nil {
		return in("Journal", err)
	}
	as := cfg.Journal.Join
	if as.URL != "" && as.Node == "" {
		return settings.Invalid("Journal.Join.Node", "--nats needs --node NAME: another name for each node, by which answers say who is late")
	}
	as.Dir, as.MaxBytes = filepath.Clean(cfg.Journal.Dir), cfg.Journal.MaxBytes
	if err := as.Validate(); err != nil {
		return settings.Invalid("Journal.Join", err.Error())
	}
	return in("Journal", cfg.Journal.FitsMemory(cfg.Engine))
}

// in names the part whose field is at fault.
func in(part string, err error) error {
	if of, ok := errors.AsType[*weir.Error](err); ok {
		return &weir.Error{Code: of.Code, Field: part + "." + of.Field, Message: of.Message}
	}
	return err
}

func (cfg Config) validateHistory() error {
	if !cfg.History.On {
		return nil
	}
	if cfg.Ephemeral {
		return settings.Invalid("History.On", "history is made of the journal, and an ephemeral node has none: leave out History, or Ephemeral")
	}
	if field, err := cfg.History.Validate(); err != nil {
		return settings.Invalid("History."+field, err.Error())
	}
	return nil
}
