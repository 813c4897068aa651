package node

import (
	"errors"
	"fmt"
	"path/filepath"

	weir "github.com/weir-counter/weir"
)

// Validate returns a *weir.Error of CodeInvalidConfig that names the first field outside
// what it may be, with its part: Journal.FlushEvery, Server.Addr. Start does the same, before it
// opens anything. Files that fields name are not read, but for the cluster's secret.
func (cfg Config) Validate() error { return cfg.withDefaults().validate() }

func (cfg Config) validate() error {
	if cfg.CloseTimeout < 0 {
		return invalid("CloseTimeout", fmt.Sprintf("CloseTimeout of %v: must be above 0s", cfg.CloseTimeout))
	}
	if err := cfg.Server.Validate(); err != nil {
		return in("Server", err)
	}
	if err := cfg.validateSockets(); err != nil {
		return err
	}
	if err := cfg.validateJournal(); err != nil {
		return err
	}
	return in("Engine", cfg.Engine.Validate())
}

// validateSockets refuses parts that are Start's to make.
func (cfg Config) validateSockets() error {
	s := &cfg.Server
	for _, socket := range []struct {
		field string
		given bool
	}{
		{"Opening", s.Opening != nil}, {"Journal", s.Journal != nil}, {"Cluster", s.Cluster != nil}, {"Answers", s.Answers != nil},
		{"Route", s.Route != nil}, {"Strict", s.Strict != nil}, {"Policies", s.Policies != nil}, {"PolicyFile", s.PolicyFile != nil},
	} {
		if socket.given {
			return invalid("Server."+socket.field, "Server."+socket.field+" is made by the node: leave it out")
		}
	}
	return nil
}

func (cfg Config) validateJournal() error {
	if cfg.Ephemeral {
		if cfg.clustered() || cfg.Journal.Replicas > 0 {
			return invalid("Ephemeral", "nodes count together by their journals, and an ephemeral one has none: leave out Ephemeral, or Journal.Join and Journal.Replicas")
		}
		return nil
	}
	if err := cfg.Journal.Validate(); err != nil {
		return in("Journal", err)
	}
	as := cfg.Journal.Join
	if as.URL != "" && as.Node == "" {
		return invalid("Journal.Join.Node", "--nats needs --node NAME: another name for each node, by which answers say who is late")
	}
	as.Dir, as.MaxBytes = filepath.Clean(cfg.Journal.Dir), cfg.Journal.MaxBytes
	if err := as.Validate(); err != nil {
		return invalid("Journal.Join", err.Error())
	}
	if err := cfg.Journal.FitsMemory(cfg.Engine.Memory, cfg.Engine.LimitMemory); err != nil {
		return in("Journal", err)
	}
	return cfg.checkReceipts()
}

func invalid(field, message string) error {
	return &weir.Error{Code: weir.CodeInvalidConfig, Field: field, Message: message}
}

// in names the part whose field is at fault.
func in(part string, err error) error {
	if of, ok := errors.AsType[*weir.Error](err); ok {
		return &weir.Error{Code: of.Code, Field: part + "." + of.Field, Message: of.Message}
	}
	return err
}
