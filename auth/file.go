package auth

import (
	"time"

	"go.yaml.in/yaml/v4"
)

// file is the file as YAML has it. Lists whose absence means "all" are nodes, so that an empty
// one is not taken for it.
type file struct {
	Identities []fileIdentity `yaml:"identities"`
}

type fileIdentity struct {
	Name         string           `yaml:"name"`
	Permissions  []filePermission `yaml:"permissions"`
	Ceilings     fileCeilings     `yaml:"ceilings,omitempty"`
	Certificates []string         `yaml:"certificates,omitempty"`
	Tokens       []fileToken      `yaml:"tokens"`
}

type filePermission struct {
	Role   string    `yaml:"role"`
	Keys   yaml.Node `yaml:"keys,omitempty"`
	Limits yaml.Node `yaml:"limits,omitempty"`
}

type fileCeilings struct {
	Requests *uint64 `yaml:"requests_per_second,omitempty"`
	Hits     *uint64 `yaml:"hits_per_second,omitempty"`
	NewKeys  *uint64 `yaml:"new_keys_per_minute,omitempty"`
}

type fileToken struct {
	ID      string    `yaml:"id"`
	SHA256  string    `yaml:"sha256"`
	Created time.Time `yaml:"created,omitempty"`
	Expires time.Time `yaml:"expires,omitempty"`
}
