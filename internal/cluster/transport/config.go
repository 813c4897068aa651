// Package join connects this process to JetStream, in one of three ways:
//
//   - one node alone: an embedded server without a port (neither Cluster nor URL),
//   - a cluster of nodes, each with an embedded server (Cluster, Node, Addr, Peers),
//   - an existing NATS (URL).
//
// What the rest of the journal sees is the same: a connection that works, and
// the answer to how many replicas a stream can have.
//
// A cluster of n nodes goes on while more than half of them are up. Then one that
// comes back catches up by itself; its directory belongs to its name.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/internal/files"
)

// Config says how to join. Errors of Open name the flags of `weir serve` that
// set the fields.
type Config struct {
	// Dir is for the embedded server's files; MaxBytes, above 0, bounds them.
	// Neither is used with URL.
	Dir      string
	MaxBytes int64

	// Unbroken is the stream whose messages are removed from its beginning only, so
	// that a hole in this node's replica of it is damage. "": there is none.
	Unbroken string

	// Unchecked starts without reading the replica first: it may be damaged, on a
	// person's word.
	Unchecked bool

	// Cluster is the name that all nodes of a cluster share. "": one node alone.
	Cluster string
	// Node is this node's name, unique in the cluster, and Dir's for ever.
	Node string
	// Addr is the host:port where other nodes reach this one, and where it
	// listens for them, unless Listen is another.
	Addr string
	// Listen is host:port as well, for where Addr is not an address of this
	// machine (NAT, containers). "": Addr.
	Listen string
	// Peers are the Addr of all nodes; this node's own may be among them. The list of the first nodes sets the size of
	// the cluster, so it must be complete from the start. Otherwise a node that knows two of four others could make a
	// cluster of its own. A node that joins later names at least one node that is up. Joining makes the cluster
	// larger, and Remove makes it smaller again, whatever the lists say.
	Peers []string

	// TLS between nodes is mutual: all three files, or none. CA is read once, by Open. Cert and Key are read for each
	// connection.
	TLS TLS
	// Secret is what nodes show each other, at least 16 bytes. SecretFile has it,
	// with or without a newline, to keep it out of the process list.
	Secret, SecretFile string
	// Insecure allows what is otherwise refused beyond loopback: connections
	// without TLS or without a secret.
	Insecure bool

	// URL is of an existing NATS, or several separated by commas; a user and
	// password may be in it. Then no server is embedded.
	URL string
	// Creds is a file of credentials (JWT and key) for it. "": none.
	Creds string
	// ClientTLS is for URL. CA alone is enough for a server that asks for no
	// certificate; nothing at all means the system's authorities.
	ClientTLS TLS

	// Waiting is called now and then with what Open waits for. nil: nobody asks.
	Waiting func(what string)

	// Logger takes what happens to the connections. nil: none.
	Logger *slog.Logger
}

// TLS names PEM files.
type TLS struct{ CA, Cert, Key string }

func (t TLS) none() bool { return t == TLS{} }

// minSecret is in bytes: nobody remembers it, `openssl rand -hex 32` makes one.
const minSecret = 16

// Alone is the configuration of a node alone with the same files.
func (cfg Config) Alone() Config {
	return Config{Dir: cfg.Dir, MaxBytes: cfg.MaxBytes, Unbroken: cfg.Unbroken, Waiting: cfg.Waiting, Logger: cfg.Logger}
}

// Names become subjects, directories and user names of routes.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns what Open would refuse before it connects to anything, for callers that open other things first.
func (cfg Config) Validate() error {
	_, err := cfg.prepare()
	return err
}

// prepare checks, reads the secret, and sets defaults. After it Peers has each
// node once, this one included.
func (cfg Config) prepare() (Config, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.URL != "" && cfg.Cluster != "":
		return cfg, errors.New("--nats and --cluster: choose one: an existing NATS, or a cluster of embedded servers")
	case cfg.URL != "":
		return cfg, cfg.checkURL()
	case cfg.Dir == "":
		return cfg, errors.New("no directory for the embedded server: name one with --data")
	case cfg.MaxBytes <= 0:
		return cfg, fmt.Errorf("%d bytes for the embedded server's files: must be above 0", cfg.MaxBytes)
	case cfg.Cluster == "":
		if cfg.Node != "" || cfg.Addr != "" || cfg.Listen != "" || len(cfg.Peers) > 0 || !cfg.TLS.none() || cfg.Secret != "" || cfg.SecretFile != "" {
			return cfg, errors.New("--node, --peers and --cluster-* need --cluster NAME; leave them out for one node alone")
		}
		return cfg, nil
	}
	return cfg.prepareCluster()
}

func (cfg Config) prepareCluster() (Config, error) {
	switch {
	case !nameRule.MatchString(cfg.Cluster):
		return cfg, fmt.Errorf("--cluster %q: use 1 to 64 letters, digits, - and _", cfg.Cluster)
	case !nameRule.MatchString(cfg.Node):
		return cfg, fmt.Errorf("--node %q: each node needs a name of its own, of 1 to 64 letters, digits, - and _", cfg.Node)
	}
	if cfg.Listen == "" {
		cfg.Listen = cfg.Addr
	}
	if err := checkAddr("--cluster-addr", cfg.Addr); err != nil {
		return cfg, err
	}
	if host, _, _ := net.SplitHostPort(cfg.Addr); unspecified(host) {
		return cfg, fmt.Errorf("--cluster-addr %s: other nodes can't reach this one by it: give the address they use, and --cluster-listen %s", cfg.Addr, cfg.Addr)
	}
	if err := checkAddr("--cluster-listen", cfg.Listen); err != nil {
		return cfg, err
	}
	for _, peer := range cfg.Peers {
		if err := checkAddr("--peers", peer); err != nil {
			return cfg, err
		}
	}
	cfg.Peers = slices.Compact(slices.Sorted(slices.Values(append([]string{cfg.Addr}, cfg.Peers...))))
	if len(cfg.Peers) == 1 {
		return cfg, errors.New("--cluster without --peers: give the --cluster-addr of every node, at best of three; leave --cluster out for one node alone")
	}
	return cfg.prepareSecurity()
}

func (cfg Config) prepareSecurity() (Config, error) {
	if cfg.SecretFile != "" {
		if cfg.Secret != "" {
			return cfg, errors.New("--cluster-secret and --cluster-secret-file: choose one")
		}
		secret, err := os.ReadFile(cfg.SecretFile)
		if err != nil {
			return cfg, fmt.Errorf("--cluster-secret-file: %w", err)
		}
		cfg.Secret = strings.TrimRight(string(secret), "\r\n")
		if cfg.Secret == "" {
			return cfg, fmt.Errorf("--cluster-secret-file %s is empty", cfg.SecretFile)
		}
	}
	switch {
	case cfg.Secret != "" && len(cfg.Secret) < minSecret:
		return cfg, fmt.Errorf("the cluster's secret has %d bytes: use at least %d, the same on all nodes (openssl rand -hex 32)", len(cfg.Secret), minSecret)
	case !cfg.TLS.none() && (cfg.TLS.CA == "" || cfg.TLS.Cert == "" || cfg.TLS.Key == ""):
		return cfg, errors.New("TLS between nodes needs all of ca.crt, tls.crt and tls.key in --cluster-tls: nodes authenticate each other")
	case cfg.Insecure || (cfg.Secret != "" && !cfg.TLS.none()):
		return cfg, nil
	}
	for _, addr := range append([]string{cfg.Listen}, cfg.Peers...) {
		if !Loopback(addr) {
			return cfg, fmt.Errorf("%s is beyond loopback, so the cluster needs TLS (--cluster-tls) and a secret (--cluster-secret-file); "+
				"to go without, say --insecure-peers", addr)
		}
	}
	return cfg, nil
}

func checkAddr(flag, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" {
		err = errors.New("the host is missing")
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w: use host:port", flag, addr, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%s %q: the port must be 1 to 65535", flag, addr)
	}
	return nil
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// Loopback reports whether nobody beyond this machine can be at a host, or at host:port. A name
// other than localhost may be anywhere.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// nodeTLS is mutual TLS between nodes. What the handshake would only hint at in
// the logs of two machines is checked here, where it can be named.
func nodeTLS(files TLS) (*tls.Config, error) {
	pool, err := authorities("--cluster-tls", files.CA)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls: %w", err)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	// A node is the server of some connections and the client of others.
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return nil, fmt.Errorf("--cluster-tls: %s: %w: it must be signed by the authority in ca.crt, for server and client authentication", files.Cert, err)
		}
	}
	// A connection begins with the certificate that the files have then: it is renewed without a restart.
	now := func() (*tls.Certificate, error) {
		renewed, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return &cert, nil //nolint:nilerr // one of the files is renewed, and not yet the other
		}
		return &renewed, nil
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now() },
		RootCAs:              pool,
		ClientCAs:            pool,
		ClientAuth:           tls.RequireAndVerifyClientCert,
	}, nil
}

func authorities(flag, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s: no certificate in it: it must be PEM", flag, file)
	}
	return pool, nil
}

// identity says whose files a directory has. A node alone leaves no such file.
//
// It exists because the server does not detect a mix-up. Started as a node of a cluster, a server takes the streams of
// a node alone for orphans, and deletes them. Started under another name it is a new node, while the cluster still
// counts the old one in every quorum.
type identity struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

const (
	identityFile = "node.json"
	storeFolder  = "jetstream" // that the server makes in its directory
)

// claim refuses a directory that is another's, and marks a new one.
func claim(dir string, want identity) error {
	is, err := readIdentity(dir)
	switch {
	case err != nil:
		return err
	case is == (identity{}):
		return claimUnmarked(dir, want)
	}
	if is != want {
		return fmt.Errorf("%s belongs to node %s of cluster %s: start it with --cluster %[3]s --node %[2]s, or name another --data", dir, is.Node, is.Cluster)
	}
	return nil
}

func claimUnmarked(dir string, want identity) error {
	if want == (identity{}) {
		return nil
	}
	switch _, err := os.Stat(filepath.Join(dir, storeFolder)); {
	case err == nil:
		return fmt.Errorf("%s was filled by a node alone, or lost its %s; joining a cluster would delete it: name another --data, empty if this is a node of the cluster", dir, identityFile)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(want)
	if err != nil {
		return err
	}
	return files.WriteFileSynced(filepath.Join(dir, identityFile), append(data, '\n'))
}

// Inspect reads the files of an embedded server that does not run, and changes none. If they are not a cluster node's
// files, node is "" and nothing is checked: a server alone does not make others lose anything. unbroken is
// Config.Unbroken.
func Inspect(dir, unbroken string) (node string, damaged []Damage, err error) {
	is, err := readIdentity(dir)
	if err != nil || is.Node == "" {
		return "", nil, err
	}
	damaged, err = CheckDisk(dir, unbroken)
	return is.Node, damaged, err
}

// Alone turns the files of a cluster's node, or better a copy of them, into files of a node alone, for a server that
// only reads them.
func Alone(dir string) error {
	return errors.Join(os.Remove(filepath.Join(dir, identityFile)), DiskAlone(dir))
}

// readIdentity returns the zero identity for a directory without one.
func readIdentity(dir string) (is identity, err error) {
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return is, nil
	}
	if err != nil {
		return is, err
	}
	if err := json.Unmarshal(data, &is); err != nil || is.Node == "" {
		return is, fmt.Errorf("%s is damaged: it should name the cluster and the node: restore it, or, with the other nodes up, start this one with an empty --data", path)
	}
	return is, nil
}
