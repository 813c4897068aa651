package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const example = `identities:
  - name: shop
    permissions:
      - role: ingest
        keys: ["shop:"]
      - role: decide
        keys: ["shop:login:"]
        limits: [login]
    ceilings: {requests_per_second: 100, hits_per_second: 1000, new_keys_per_minute: 60}
    certificates: ["dns:shop.internal", "uri:spiffe://example.org/shop"]
    tokens:
      - id: k3v7q2m5ax
        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        expires: 2027-01-01T00:00:00Z
  - name: ops
    permissions: [{role: admin}]
    certificates: ["dns:ops.internal"]
`

func TestParse(t *testing.T) {
	s, err := Parse("f", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	shop := s.Identities()[0]
	if shop.Ceilings != (Ceilings{100, 1000, 60}) {
		t.Errorf("ceilings %+v", shop.Ceilings)
	}
	if g := s.Identities()[1].Permission(Admin); !g.All() {
		t.Errorf("ops: %+v", g)
	}
	live := NewLive(s)
	if login, err := live.Certificate(Certificate{Names: []string{"dns:other", "dns:shop.internal", "uri:spiffe://example.org/shop"}, Ends: time.Now().Add(time.Hour)}); err != nil || login.Identity != shop {
		t.Errorf("certificate: %v", err)
	}
	if _, err := live.Certificate(Certificate{Names: []string{"dns:shop.internal", "dns:ops.internal"}, Ends: time.Now().Add(time.Hour)}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a certificate of two: %v", err)
	}
}

// A login by a certificate ends with the certificate, and when its names belong to others.
func TestCertificateLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := func(text string) *Set {
			s, err := Parse("f", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		live := NewLive(set(example))
		certificate := Certificate{Names: []string{"dns:shop.internal", "dns:old.internal"}, Ends: time.Now().Add(time.Hour)}
		login, err := live.Certificate(certificate)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			old, new string
			want     error
		}{
			"same":                 {"", "", nil},
			"also another's":       {`"dns:ops.internal"`, `"dns:old.internal"`, ErrUnknown},
			"nobody's":             {`"dns:shop.internal", `, "", ErrUnknown},
			"of another identity":  {"name: shop", "name: mall", ErrUnknown},
			"by another of it":     {`"dns:shop.internal", `, `"dns:old.internal", `, nil},
			"another's in between": {"name: ops", "name: operators", nil},
		} {
			live.Use(set(strings.Replace(example, c.old, c.new, 1)))
			if _, err := live.Check(login); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		live.Use(set(example))
		login, err = live.Certificate(certificate)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 1)
		if _, err := live.Check(login); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := live.Check(login); !errors.Is(err, ErrExpired) {
			t.Errorf("at its end: %v", err)
		}
		if _, err := live.Certificate(certificate); !errors.Is(err, ErrExpired) {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestWrongFiles(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field": {"keys:", "key:", "key"},
		"no list":       {`keys: ["shop:"]`, "keys:", "leave `keys` out"},
		"empty list":    {`keys: ["shop:"]`, "keys: []", "leave `keys` out"},
		"one text":      {`keys: ["shop:"]`, "keys: shop", "leave `keys` out"},
		"star":          {`"shop:"`, `"*"`, "leave out `keys`"},
		"pattern":       {`"shop:"`, `"shop:*"`, "without the *"},
		"empty prefix":  {`"shop:"`, `""`, "1 to 512 bytes"},
		"role":          {"role: ingest", "role: injest", "did you mean ingest"},
		"role twice":    {"role: ingest", "role: decide", "twice"},
		"name":          {"name: shop", "name: a b", "name: write"},
		"name twice":    {"name: ops", "name: shop", "twice"},
		"sha":           {"9f86", "9f", "64 hexadecimal"},
		"id":            {"k3v7q2m5ax", "K_", "middle part"},
		"ceiling":       {"requests_per_second: 100", "requests_per_second: 0", "leave it out"},
		"san":           {"dns:ops.internal", "ops", "dns:NAME"},
		"san twice":     {"dns:ops.internal", "dns:shop.internal", "twice"},
		"no role":       {"[{role: admin}]", "[]", "no role"},
		"limits":        {`keys: ["shop:"]`, "limits: [a]", "role ingest has none"},
	} {
		_, err := Parse("f", []byte(strings.Replace(example, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWithin(t *testing.T) {
	g := &Permission{Keys: disjoint([]string{"b:", "a:x", "a:xy", "a:"})}
	for prefix, want := range map[string]string{"": "a: b:", "a:x": "a:x", "c": "", "b": "b:"} {
		if got := strings.Join(g.Within(prefix), " "); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	if got := Everything.Within(""); len(got) != 1 || got[0] != "" {
		t.Errorf("everything: %q", got)
	}
	if got := (*Permission)(nil).Within(""); got != nil {
		t.Errorf("nothing: %q", got)
	}
}

func TestFileThatAllMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("identities: []"))
	f.Add([]byte("identities: [{name: a, permissions: &a [{role: read, keys: [x]}]}, {name: b, permissions: *a}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		if err != nil {
			return
		}
		for _, i := range s.Identities() {
			if !IsName(i.Name) || len(s.Tokens(i.Name)) > MaxTokens {
				t.Errorf("identity %q", i.Name)
			}
			permitted := false
			for r := range roles {
				g := i.Permission(r)
				permitted = permitted || g != nil
				if g != nil && g.Keys != nil && (len(g.Keys) == 0 || g.Keys[0] == "") {
					t.Errorf("%s: all keys by %q", i.Name, g.Keys)
				}
			}
			if !permitted {
				t.Errorf("%s: no role", i.Name)
			}
		}
	})
}

func FuzzToken(f *testing.F) {
	s, err := Parse("f", []byte(example))
	if err != nil {
		f.Fatal(err)
	}
	live := NewLive(s)
	f.Add("weir_k3v7q2m5ax_x")
	f.Fuzz(func(t *testing.T, text string) {
		if login, err := live.Token(text); err == nil {
			t.Errorf("%q is %s", text, login.Identity.Name)
		}
	})
}
