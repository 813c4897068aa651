package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-counter/weir/internal/files"
)

// New is a token to create.
type New struct {
	Identity    string
	Permissions []Permission // of an identity that is new; one that is there keeps its own
	Expires     time.Time    // zero: after as long as the identity's newest token is good for; of its first one never
	Forever     bool         // it never expires, whatever the newest token does
}

// Create adds a token to the file at path, and makes the file, with mode 0600, if it is not there. Tokens of the
// identity that have expired go. Nothing else has the text. The file is replaced as a whole: a reader sees the old one
// or the new one. expires is when the token expires; zero: never.
func Create(path string, n New) (text string, expires time.Time, err error) {
	err = edit(path, func(doc *yaml.Node, set *Set) error {
		now := time.Now()
		if !n.Expires.IsZero() && !n.Expires.After(now) {
			return fmt.Errorf("the token would have expired at %s", n.Expires.Format(time.RFC3339))
		}
		if expires, err = n.end(set, now); err != nil {
			return err
		}
		var token Token
		text, token = newToken(now, expires)
		identity, err := identityIn(doc, set, &n)
		if err != nil {
			return err
		}
		tokens := member(identity, "tokens", yaml.SequenceNode)
		tokens.Style &^= yaml.FlowStyle
		dropTokens(tokens, func(id string) bool { return set.tokens[id] != nil && set.tokens[id].token.Expired(now) })
		if len(tokens.Content) >= MaxTokens {
			return fmt.Errorf("identity %s has %d tokens that are good, and may have %d: revoke one with 'weir token revoke ID'; 'weir token list' shows them", n.Identity, len(tokens.Content), MaxTokens)
		}
		return appendTo(tokens, fileToken{ID: token.ID, SHA256: hex.EncodeToString(token.sum[:]), Created: token.Created, Expires: token.Expires})
	})
	if err != nil {
		return "", time.Time{}, err
	}
	return text, expires, nil
}

// end is when the token expires. One that takes the place of another is good for as long, so that a
// rotation does not make it endless.
func (n *New) end(set *Set, now time.Time) (time.Time, error) {
	tokens := set.Tokens(n.Identity)
	if n.Forever || !n.Expires.IsZero() || len(tokens) == 0 {
		return n.Expires.UTC().Truncate(time.Second), nil
	}
	newest := tokens[len(tokens)-1]
	switch {
	case newest.Expires.IsZero():
		return time.Time{}, nil
	case newest.Created.IsZero() || !newest.Expires.After(newest.Created):
		return time.Time{}, fmt.Errorf("token %s of %s expires at %s, and the file does not say for how long it was good: say it of the new one with --expires",
			newest.ID, n.Identity, newest.Expires.Format(time.RFC3339))
	}
	return now.Add(newest.Expires.Sub(newest.Created)).UTC().Truncate(time.Second), nil
}

// Revoke removes the token with an id from the file at path. A server that reads the file
// refuses it within a second, also on connections that are open.
func Revoke(path, id string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no tokens file %s: name it with --tokens", path)
	}
	return edit(path, func(doc *yaml.Node, set *Set) error {
		login := set.tokens[id]
		if login == nil {
			return fmt.Errorf("no token has the id %s: 'weir token list' shows those that there are", clip(id))
		}
		at := slices.Index(set.identities, login.Identity)
		dropTokens(member(member(doc, "identities", yaml.SequenceNode).Content[at], "tokens", yaml.SequenceNode), func(has string) bool { return has == id })
		return nil
	})
}

// edit changes the file at path by do, while no other edit does.
func edit(path string, do func(doc *yaml.Node, set *Set) error) error {
	unlock, err := lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	data, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(bytes.TrimSpace(data)) == 0:
		data = []byte("identities: []\n")
	case err != nil:
		return err
	}
	set, err := Parse(path, data)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		return err
	}
	if err := do(doc.Content[0], set); err != nil {
		return err
	}
	changed, err := yaml.Dump(&doc)
	if err != nil {
		return err
	}
	if _, err := Parse(path, changed); err != nil {
		return fmt.Errorf("the file would be wrong after the change, and stays as it is: %w", err)
	}
	return replace(path, changed)
}

// identityIn finds an identity in the document, or adds it.
func identityIn(doc *yaml.Node, set *Set, n *New) (*yaml.Node, error) {
	list := member(doc, "identities", yaml.SequenceNode)
	at := slices.IndexFunc(set.identities, func(i *Identity) bool { return i.Name == n.Identity })
	switch {
	case at >= 0 && len(n.Permissions) > 0:
		return nil, fmt.Errorf("identity %s is there: create a further token of it without --role, --keys and --limits, or edit its permissions in the file", n.Identity)
	case at >= 0:
		return list.Content[at], nil
	case len(n.Permissions) == 0:
		return nil, fmt.Errorf("there is no identity %s: say what a new one may do with --role", clip(n.Identity))
	}
	made := struct {
		Name        string
		Permissions []map[string]any
	}{Name: n.Identity}
	for _, g := range n.Permissions {
		permission := map[string]any{"role": g.Role.String()}
		if len(g.Keys) > 0 {
			permission["keys"] = g.Keys
		}
		if len(g.Limits) > 0 {
			permission["limits"] = g.Limits
		}
		made.Permissions = append(made.Permissions, permission)
	}
	list.Style &^= yaml.FlowStyle
	if err := appendTo(list, made); err != nil {
		return nil, err
	}
	return list.Content[len(list.Content)-1], nil
}

// member is the value of a mapping's field; one that is missing, or null, is made.
func member(mapping *yaml.Node, name string, kind yaml.Kind) *yaml.Node {
	if mapping.Kind == yaml.AliasNode {
		mapping = mapping.Alias
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != name {
			continue
		}
		value := mapping.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if value.Kind != kind {
			*value = yaml.Node{Kind: kind}
		}
		return value
	}
	made := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, made)
	return made
}

func appendTo(list *yaml.Node, element any) error {
	text, err := yaml.Dump(element)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Load(text, &doc); err != nil {
		return err
	}
	list.Content = append(list.Content, doc.Content[0])
	return nil
}

func dropTokens(tokens *yaml.Node, drop func(id string) bool) {
	tokens.Content = slices.DeleteFunc(tokens.Content, func(token *yaml.Node) bool {
		return drop(member(token, "id", yaml.ScalarNode).Value)
	})
}

// lock keeps other edits of the file at path away until unlock. The lock is on a second file, since the file itself is
// replaced. unlock removes the second file. An edit that waited for it may hold one that is gone, and takes another.
func lock(path string) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|files.NoFollow, 0o600)
		if err != nil {
			return nil, err
		}
		if err := files.Lock(file); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
		}
		held, heldErr := file.Stat()
		there, thereErr := os.Lstat(file.Name())
		if heldErr == nil && thereErr == nil && os.SameFile(held, there) {
			return func() {
				_ = os.Remove(file.Name()) // one that stays is only not tidy
				_ = file.Close()           // which lets the lock go
			}, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
}

// replace puts data in place of the file at path, on disk. A new one has mode 0600. One that is there
// keeps its mode, and its owner if this process may give files away. So a server that runs as
// another user can still read it. A link is followed, and stays one.
func replace(path string, data []byte) (err error) {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if info, err := os.Stat(path); err == nil {
		files.CopyOwner(temp, info)
		if err := temp.Chmod(info.Mode().Perm() &^ 0o022); err != nil {
			return errors.Join(err, temp.Close())
		}
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return files.SyncDirectory(filepath.Dir(path))
}
