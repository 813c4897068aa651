// Package archive keeps the backups of a server in a directory or in a bucket of S3. Keeper makes them by itself.
//
// Invariants:
//   - A backup is in the list of its Place only if it is whole, whenever the process that makes it is killed.
//   - Each backup is read back after it was written, and compared with what was written.
//   - Old backups are deleted only right after a newer one of the same journal was written and read back. So a place that two
//     servers have, or that had a former server, loses nothing.
//
// Package backup has the bytes of a backup, and docs/decisions/0018-archive.md the reasons.
package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/internal/backup"
	"github.com/weir-counter/weir/internal/cluster/transport"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/files"
	"github.com/weir-counter/weir/internal/units"
)

// Place is where backups are kept, as its URL says (docs/durability.md):
//
//	file:/directory?every=1h&keep=7d&age=age1...
//	s3://bucket/prefix?endpoint=https://host:port&region=...
type Place struct {
	url        string        // without parameters
	every      time.Duration // between two backups
	keepNumber int           // how many backups to keep; 0: keepTime says how long
	keepTime   time.Duration // how long to keep them; 0, and no keepNumber: forever
	recipients []age.Recipient
	store
}

// store is a directory or a bucket.
type store interface {
	// put stores a file with the content that write writes. The file is in the list once it is whole and stored.
	put(ctx context.Context, name string, write func(io.Writer) error) error
	// each calls f for each file, in any order.
	each(ctx context.Context, f func(name string, bytes int64)) error
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	remove(ctx context.Context, name string) error
}

var parameters = []string{"every", "keep", "age", "endpoint", "region"}

// OpenPlace reads the URL of a place, which may be on another machine without TLS if insecure says so. It does not connect.
func OpenPlace(text string, insecure bool) (*Place, error) {
	place, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	path, errPath := url.PathUnescape(place)
	if err = cmp.Or(err, errPath); err != nil {
		return nil, fmt.Errorf("%w: write %% as %%25", err)
	}
	for name, list := range values {
		switch {
		case !slices.Contains(parameters, name):
			return nil, fmt.Errorf("no parameter %q%s; there are %s", name, units.DidYouMean(name, parameters), strings.Join(parameters, ", "))
		case len(list) > 1 && name != "age":
			return nil, fmt.Errorf("%s stands twice", name)
		}
	}
	p := &Place{url: place}
	if p.every, err = units.ParseDuration(cmp.Or(values.Get("every"), "1h")); err != nil || p.every < time.Second {
		return nil, fmt.Errorf("every=%s: write a time of at least 1s, such as 1h", values.Get("every"))
	}
	if keep := cmp.Or(values.Get("keep"), "7d"); keep != "all" {
		if p.keepNumber, err = strconv.Atoi(keep); err != nil {
			p.keepNumber = 0
			p.keepTime, err = units.ParseDuration(keep)
		}
		if err != nil || p.keepNumber <= 0 && p.keepTime < p.every {
			return nil, fmt.Errorf("keep=%s: write how many backups, such as 24, how long, such as 7d and at least every=, or all", keep)
		}
	}
	for _, text := range values["age"] {
		recipients, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("age=%.20s: write a recipient of age, such as age1...: %w", text, err)
		}
		p.recipients = append(p.recipients, recipients...)
	}
	scheme, path, _ := strings.Cut(path, ":")
	path = strings.TrimPrefix(path, "//")
	switch name, prefix, _ := strings.Cut(path, "/"); {
	case scheme == "file" && path != "":
		p.store = directory(path)
	case scheme == "s3" && name != "":
		p.store, err = newBucket(name, prefix, values.Get("endpoint"), values.Get("region"), insecure)
	default:
		err = errors.New("it must be file:/directory or s3://bucket/prefix")
	}
	return p, err
}

// String is the URL without parameters.
func (p *Place) String() string { return p.url }

// Backup is one backup in a place.
type Backup struct {
	Name    string   `json:"name"`
	Taken   api.Time `json:"taken"`
	Journal string   `json:"journal"` // the journal's ID: 16 hexadecimal digits
	Bytes   int64    `json:"bytes"`
}

// backupName matches the name of a backup: its time, and its journal. Other files are not Weir's.
var backupName = regexp.MustCompile(`^weir-(\d{8}T\d{6}Z)-([0-9a-f]{16})\.backup(\.age)?$`)

const timeLayout = "20060102T150405Z"

// List returns the backups, the newest last.
func (p *Place) List(ctx context.Context) (list []Backup, err error) {
	err = p.each(ctx, func(name string, bytes int64) {
		if parts := backupName.FindStringSubmatch(name); parts != nil {
			if at, err := time.Parse(timeLayout, parts[1]); err == nil {
				list = append(list, Backup{name, api.Time{Time: at}, parts[2], bytes})
			}
		}
	})
	slices.SortFunc(list, func(a, b Backup) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
}

const (
	makeTime     = 6 * time.Hour    // for one backup
	writeTime    = 10 * time.Minute // for one Write of it; a part of an upload has many
	removeTime   = 5 * time.Second  // to delete a backup that was not read back as it was written
	metadataTime = 5 * time.Second  // for the metadata service of a cloud, which other machines do not have
	partBytes    = 16 << 20         // memory of an upload. There are 10,000 parts at most: 156 GiB.
)

// create stores the backup that take writes, and reads it back.
func (p *Place) create(ctx context.Context, journal string, take func(context.Context, io.Writer) error) (b Backup, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, makeTime, fmt.Errorf("it took more than %v", makeTime))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := time.AfterFunc(writeTime, func() { end(fmt.Errorf("nothing could be written for %v", writeTime)) })
	late.Stop()
	b.Taken, b.Journal = api.Time{Time: time.Now().UTC().Truncate(time.Second)}, journal
	b.Name = "weir-" + b.Taken.Format(timeLayout) + "-" + journal + ".backup"
	if p.recipients != nil {
		b.Name += ".age"
	}
	written, read := sha256.New(), sha256.New()
	if err := p.put(ctx, b.Name, func(w io.Writer) error {
		w = io.MultiWriter(written, timedWriter{w, late})
		if p.recipients == nil {
			return take(ctx, w)
		}
		sealed, err := age.Encrypt(w, p.recipients...)
		if err != nil {
			return err
		}
		return cmp.Or(take(ctx, sealed), sealed.Close())
	}); err != nil {
		return b, cmp.Or(context.Cause(ctx), err)
	}
	back, err := p.Open(ctx, b.Name)
	if err == nil {
		defer back.Close()
		var info backup.Info
		if p.recipients == nil {
			info, err = backup.Scan(io.TeeReader(back, read))
		} else {
			info.Bytes, err = io.Copy(read, back)
		}
		if b.Bytes = info.Bytes; err == nil && !bytes.Equal(read.Sum(nil), written.Sum(nil)) {
			err = errors.New("it is not what was written")
		}
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		err = fmt.Errorf("it could not be read back: %w", errors.Join(err, p.remove(ctx, b.Name)))
	}
	return b, err
}

// tryTime bounds Try.
const tryTime = 20 * time.Second

// Try writes a small file into the place, reads it back and removes it.
func (p *Place) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	name := "weir-doctor-" + rand.Text()
	if err := p.put(ctx, name, func(w io.Writer) error {
		_, err := io.WriteString(w, name)
		return err
	}); err != nil {
		return err
	}
	file, err := p.Open(ctx, name)
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(file, 1<<10)); err == nil && string(text) != name {
			err = errors.New("what was written can't be read back")
		}
		err = cmp.Or(err, file.Close())
	}
	return cmp.Or(err, p.remove(ctx, name))
}

// timedWriter ends a Write that takes longer than writeTime, by the timer late. During a Write other backups wait, and the
// journal is not trimmed.
type timedWriter struct {
	io.Writer
	late *time.Timer
}

func (w timedWriter) Write(piece []byte) (int, error) {
	w.late.Reset(writeTime)
	defer w.late.Stop()
	return w.Writer.Write(piece)
}

// prune deletes the backups of a journal that are beyond keepNumber or keepTime. The last of list is new, and stays. It deletes
// two at most, so that a clock that is wrong for a moment does not cost all.
func (p *Place) prune(ctx context.Context, list []Backup) error {
	newest := len(list) - 1
	for i, b := range list[:min(newest, 2)] {
		if p.keepNumber > 0 && newest-i >= p.keepNumber || p.keepTime > 0 && list[newest].Taken.Sub(b.Taken.Time) > p.keepTime {
			if err := p.remove(ctx, b.Name); err != nil {
				return fmt.Errorf("delete %s: %w", b.Name, err)
			}
		}
	}
	return nil
}

// Decrypt returns the content of a backup that age has encrypted, by a file of identities, and any other backup as it is.
func Decrypt(from io.Reader, identities string) (io.Reader, error) {
	b := bufio.NewReader(from)
	const intro = "age-encryption.org/"
	if head, err := b.Peek(len(intro)); err != nil || string(head) != intro {
		return b, nil // the reader says what is wrong with it
	}
	if identities == "" {
		return nil, errors.New("it is encrypted: name the file with the identity of age with --identity")
	}
	text, err := os.ReadFile(identities)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("--identity %s: %w", identities, err)
	}
	return age.Decrypt(b, list...)
}

// directory is a folder of backups. A file is whole before it has its name.
type directory string

// partName is the name of a file until it is whole. There is one for each journal: if a process is killed, the next backup
// overwrites its file. If two nodes write it at once, reading it back finds that.
func partName(name string) string { return ".weir" + name[strings.LastIndexByte(name, '-'):] + ".part" }

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) put(_ context.Context, name string, write func(io.Writer) error) error {
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	part := d.path(partName(name))
	if err := files.WriteSynced(d.path(name), part, write); err != nil {
		_ = os.Remove(part) // else the next backup overwrites it
		return err
	}
	return nil
}

func (d directory) each(_ context.Context, f func(string, int64)) error {
	list, err := os.ReadDir(string(d))
	for _, entry := range list {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			f(entry.Name(), info.Size())
		}
	}
	return err
}

func (d directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(d.path(filepath.Base(name)))
}

func (d directory) remove(_ context.Context, name string) error { return os.Remove(d.path(name)) }

// bucket is a bucket of S3, or a folder in it. An object is there once all its parts are.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

func newBucket(name, prefix, endpoint, region string, insecure bool) (*bucket, error) {
	if strings.Contains(name+endpoint, "@") {
		return nil, errors.New("credentials come from the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: leave them out of the URL")
	}
	if err := s3utils.CheckValidBucketName(name); err != nil {
		return nil, fmt.Errorf("s3://%s: %w", name, err)
	}
	at := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if endpoint != "" {
		var err error
		if at, err = url.Parse(endpoint); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
			return nil, fmt.Errorf("endpoint=%s: write https://host:port", endpoint)
		}
		if at.Scheme == "http" && !insecure && !transport.Loopback(at.Hostname()) {
			return nil, fmt.Errorf("endpoint=%s: keys would be sent in the clear: write https://, or say --insecure-peers where the network keeps strangers out", endpoint)
		}
	}
	client, err := minio.New(at.Host, &minio.Options{Secure: at.Scheme == "https", Region: region, Creds: credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: metadataTime}},
	})})
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return &bucket{client, name, prefix}, err
}

func (b *bucket) put(ctx context.Context, name string, write func(io.Writer) error) error {
	from, to := io.Pipe()
	end := concurrency.Background(ctx, func(context.Context) { to.CloseWithError(write(to)) })
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, from, -1, minio.PutObjectOptions{PartSize: partBytes})
	from.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // ends write
	end()
	return err
}

func (b *bucket) each(ctx context.Context, f func(string, int64)) error {
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + "weir-"}) {
		if o.Err != nil {
			return o.Err
		}
		f(strings.TrimPrefix(o.Key, b.prefix), o.Size)
	}
	return nil
}

func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
}

func (b *bucket) remove(ctx context.Context, name string) error {
	return b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{})
}
