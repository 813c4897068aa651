package node

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/weir-counter/weir/internal/admit"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/service/access"
	"github.com/weir-counter/weir/internal/service/limits"
	"github.com/weir-counter/weir/internal/settings"
	"github.com/weir-counter/weir/policy"
)

// openPolicies applies the policies of the file, set, and the policies that were put by API, and follows both until parts
// are closed.
func (n *Node) openPolicies(ctx context.Context, set *policy.Set, sockets *sockets) error {
	sockets.policy.Region = n.cfg.Regions.Region
	live, err := admit.NewClusterLive(n.engine, set, sockets.policy)
	if err != nil {
		return err
	}
	sockets.Policies, sockets.PolicyFile = live, n.policyFile
	if api := n.cfg.Policies.API; api != APIOff {
		if sockets.Kept, err = access.OpenKept(ctx, sockets.document, live, api == APIWins, n.log); err != nil {
			if ctx.Err() != nil {
				return interrupted(ctx)
			}
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fileEnded, keptEnded := n.policyFile.Watch(ctx, live, n.log), sockets.Kept.Watch(ctx)
	n.parts.opened(func(context.Context) error {
		cancel()
		fileEnded()
		keptEnded()
		return nil
	})
	return nil
}

// Warnings say where a key's warning is sent (policy field warn): docs/policies.md.
type Warnings struct {
	// URL is called, by POST. "": no warnings are sent.
	URL string
	// SecretFile has the secret that calls are signed with: whsec_ and 24 to 64 bytes in base64. It is read at the start.
	SecretFile string
	// Insecure lets calls go beyond loopback in plain.
	Insecure bool
}

func (cfg Config) validateWarnings() error {
	w := &cfg.Warnings
	if w.URL == "" {
		if w.SecretFile != "" {
			return settings.Invalid("Warnings.SecretFile", "the secret signs nothing without an address that warnings are sent to: --warn-url")
		}
		return nil
	}
	to, err := url.Parse(w.URL)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" || to.User != nil || to.Fragment != "" {
		return settings.Invalid("Warnings.URL", "it is not an address that warnings can be sent to: write https://HOST/PATH, without a name and a password")
	}
	if to.Scheme == "http" && !w.Insecure && !transport.Loopback(to.Hostname()) {
		return settings.Invalid("Warnings.URL", fmt.Sprintf("warnings to %s go beyond loopback in plain: write https://, or say --insecure-peers", to.Host))
	}
	if w.SecretFile == "" {
		return settings.Invalid("Warnings.URL", "who is called must be able to tell who calls: give a secret to sign with, --warn-secret-file")
	}
	return nil
}

// readSecret reads the secret of warnings; nil: no address is called.
func (w *Warnings) readSecret() ([]byte, error) {
	if w.URL == "" {
		return nil, nil
	}
	text, err := os.ReadFile(w.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("--warn-secret-file: %w", err)
	}
	secret, err := limits.ParseSecret(string(text))
	if err != nil {
		return nil, fmt.Errorf("--warn-secret-file: %s: %w", w.SecretFile, err)
	}
	return secret, nil
}

// openWarnings begins to send them, until parts are closed.
func (n *Node) openWarnings(secret []byte, sockets *sockets) error {
	if secret == nil {
		return nil
	}
	to, err := url.Parse(n.cfg.Warnings.URL)
	if err != nil {
		return err
	}
	sockets.Warnings = limits.OpenWarnings(limits.WarningConfig{URL: to, Secret: secret, Node: sockets.Node, Logger: n.log})
	n.parts.opened(func(ctx context.Context) error { return sockets.Warnings.Close(ctx) })
	return nil
}
