package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weir-counter/weir/internal/auth"
	"github.com/weir-counter/weir/internal/cli"
)

const tokenHelp = `Create, list and revoke tokens in the file that 'weir serve --tokens FILE' reads.

The file defines identities and their permissions. It contains SHA-256 hashes, not the
tokens. A server reloads it within a second of a change, and on SIGHUP. Edit it for
several permissions, ceilings and client certificates (docs/security.md).`

func newToken(w *cli.World) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke tokens",
		Long:  tokenHelp,
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(w), newTokenList(w), newTokenRevoke(w))
	return cmd
}

func tokensFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(to, "tokens", "tokens.yaml", "file of tokens")
}

// tokenFlags are the flags of weir token create.
type tokenFlags struct {
	file                string
	roles, keys, limits []string
	expires             time.Duration
}

func newTokenCreate(w *cli.World) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it",
		Long: `Create a token for the identity NAME and print it. It is shown only once. A new
identity needs --role. An existing identity gets a second token: give it to the
clients, then revoke the old one. The token is valid for as long as the identity's
newest token was when it was created, unless --expires is given.

Roles: ingest (send hits), decide (limit requests), read (query counts), admin
(delete, backup, restore, cluster).`,
		Example: "  weir token create ops --role read,admin\n  weir token create shop --role ingest,decide --keys shop: --expires 90d\n  weir token create shop",
		RunE: cli.Work(w, func(_ *cobra.Command, args []string, given cli.Sources) error {
			if err := f.checkLists(given); err != nil {
				return err
			}
			n, err := f.token(args[0], given["expires"] != "")
			if err != nil {
				return err
			}
			text, expires, err := auth.Create(f.file, n)
			if err != nil {
				return err
			}
			if given["expires"] == "" && !expires.IsZero() {
				fmt.Fprintf(w.Stderr, "weir: it expires at %s, with the validity of the previous token; --expires changes that\n", cli.FormatMoment(expires))
			}
			fmt.Fprintln(w.Stdout, text)
			return nil
		}),
	}
	tokensFlag(cmd, &f.file)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.roles, "role", nil, "roles of a new identity: "+strings.Join(auth.RoleNames(), ", "))
	flags.StringSliceVar(&f.keys, "keys", nil, "key prefixes that the roles apply to (default all keys)")
	flags.StringSliceVar(&f.limits, "limits", nil, "limits that the roles (except ingest) apply to (default all limits)")
	flags.Var(cli.Delay(&f.expires), "expires", "validity of the token, 0 for unlimited (default: like the identity's newest token; unlimited for the first)")
	flags.Lookup("expires").DefValue = "" // the usage says it
	return cmd
}

// checkLists refuses a list that was given but is empty, or has an empty element: an unset shell variable must not stand
// for all keys.
func (f *tokenFlags) checkLists(given cli.Sources) error {
	for _, list := range []struct {
		flag, example, without string
		words                  []string
	}{
		{"role", "read,admin", "a further token of an identity that is there", f.roles},
		{"keys", "shop:,cart:", "all keys", f.keys},
		{"limits", "login", "all limits", f.limits},
	} {
		where := given[list.flag]
		empty := slices.ContainsFunc(list.words, func(word string) bool { return strings.TrimSpace(word) == "" })
		if where != "" && (empty || len(list.words) == 0) {
			return cli.Usage(fmt.Errorf("%s: the list is empty, or has an empty element: an unset shell variable? Write for example --%s %s, or leave it out for %s",
				where, list.flag, list.example, list.without))
		}
	}
	return nil
}

// token reads the flags; expiresGiven says whether --expires was given.
func (f *tokenFlags) token(name string, expiresGiven bool) (n auth.New, err error) {
	if !auth.IsName(name) {
		return n, cli.Usage(errors.New("NAME has 1 to 64 letters, digits or any of ._/-"))
	}
	n.Identity, n.Forever = name, expiresGiven && f.expires == 0
	if f.expires > 0 {
		n.Expires = time.Now().Add(f.expires)
	}
	for _, word := range f.roles {
		role, ok := auth.ParseRole(word)
		if !ok {
			return n, cli.Usage(fmt.Errorf("--role %s: there are %s", word, strings.Join(auth.RoleNames(), ", ")))
		}
		permission := auth.Permission{Role: role, Keys: f.keys, Limits: f.limits}
		if role == auth.Ingest {
			permission.Limits = nil
		}
		n.Permissions = append(n.Permissions, permission)
	}
	if len(f.roles) == 0 && len(f.keys)+len(f.limits) > 0 {
		return n, cli.Usage(errors.New("--keys and --limits are for a new identity, with --role"))
	}
	return n, nil
}

func newTokenList(w *cli.World) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "list", Short: "List identities and their tokens",
		RunE: cli.Work(w, func(*cobra.Command, []string, cli.Sources) error {
			set, err := auth.Load(file)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no tokens file %s: name it with --tokens, or create it with 'weir token create'", file)
			}
			if err != nil {
				return err
			}
			t := cli.NewTable(w.Stdout)
			t.Row("IDENTITY", "ROLES", "TOKEN", "CREATED", "EXPIRES")
			for _, i := range set.Identities() {
				roles, tokens := rolesText(i), set.Tokens(i.Name)
				if len(tokens) == 0 {
					t.Row(i.Name, roles, "-", "", "")
				}
				for _, token := range tokens {
					t.Row(i.Name, roles, token.ID, cmp.Or(cli.FormatMoment(token.Created), "-"), expiryText(&token))
				}
			}
			return t.Flush()
		}),
	}
	tokensFlag(cmd, &file)
	return cmd
}

func rolesText(i *auth.Identity) string {
	var roles []string
	for _, word := range auth.RoleNames() {
		role, _ := auth.ParseRole(word)
		g := i.Permission(role)
		switch {
		case g == nil:
		case g.All():
			roles = append(roles, word)
		default:
			roles = append(roles, word+"("+strings.Join(append(append([]string{}, g.Keys...), g.Limits...), " ")+")")
		}
	}
	return strings.Join(roles, ",")
}

func expiryText(t *auth.Token) string {
	text := cmp.Or(cli.FormatMoment(t.Expires), "never")
	if t.Expired(time.Now()) {
		text += " (expired)"
	}
	return text
}

func newTokenRevoke(w *cli.World) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "revoke ID...", Short: "Revoke tokens by their IDs",
		Long: `Revoke tokens by their IDs: the middle part of weir_<id>_<secret>, which 'weir token
list' shows. A server rejects them within a second.`,
		RunE: cli.Work(w, func(_ *cobra.Command, ids []string, _ cli.Sources) error {
			for _, id := range ids {
				if err := auth.Revoke(file, id); err != nil {
					return err
				}
				fmt.Fprintf(w.Stdout, "revoked %s\n", id)
			}
			return nil
		}),
	}
	tokensFlag(cmd, &file)
	return cmd
}
