package auth

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/nearest"
)

// fields are all that a file may have.
var fields = strings.Fields("identities name permissions role keys limits ceilings requests_per_second hits_per_second new_keys_per_minute certificates tokens id sha256 created expires")

var (
	unknownField = regexp.MustCompile(`^field (.+) not found in type `)
	wrongKind    = regexp.MustCompile("^cannot construct ")
)

// notRead says by line, and in words that are not of Go, what the YAML reader did not take.
func notRead(path string, err error) error {
	var list []*yaml.LoadError
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		list = all.Errors
	} else if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		list = append(list, one)
	} else {
		return fmt.Errorf("%s: not a YAML file of identities: %w", path, err)
	}
	const most = 20
	var faults []error
	for i, at := range list {
		if i == most {
			faults = append(faults, fmt.Errorf("%s: and %d more faults", path, len(list)-most))
			break
		}
		faults = append(faults, fmt.Errorf("%s:%d: %s", path, max(at.Mark.Line, 1), plain(at.Message)))
	}
	return errors.Join(faults...)
}

// plain is a message of the YAML reader in the words that the file's author knows.
func plain(message string) string {
	if of := unknownField.FindStringSubmatch(message); of != nil {
		name := clip(of[1])
		return fmt.Sprintf("%s: unknown field here%s; there are %s", name, nearest.DidYouMean(name, fields), strings.Join(fields, ", "))
	}
	switch {
	case wrongKind.MatchString(message):
		return "this value is of another kind than belongs here, which is text, a number, a list or fields: docs/security.md has an example of the file"
	case strings.Contains(message, "no documents"):
		return "nobody is in it: 'weir token create NAME --role ROLE' makes an identity"
	case strings.Contains(message, "already defined"):
		return message + ": remove one"
	}
	return "not YAML: " + message + "; look for a wrong indent, a tab, a missing colon, or * { } without quotes near this line"
}
