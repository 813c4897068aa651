package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/weir-counter/weir/internal/concurrency"
	"github.com/weir-counter/weir/internal/journal/checkpoint"
)

// directory is a folder of backups. A file is whole before it has its name.
type directory string

const (
	partPattern = ".weir-*.part"
	partLeft    = time.Hour // after its last byte, a part belongs to a process that was killed
)

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) put(_ context.Context, name string, write func(io.Writer) error) (err error) {
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	parts, _ := filepath.Glob(d.path(partPattern)) // the pattern is right
	for _, part := range parts {
		if is, err := os.Stat(part); err == nil && time.Since(is.ModTime()) > partLeft {
			_ = os.Remove(part) // the next backup tries again
		}
	}
	file, err := os.CreateTemp(string(d), partPattern)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), d.path(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return checkpoint.SyncDirectory(string(d))
}

func (d directory) each(_ context.Context, f func(string, int64)) error {
	list, err := os.ReadDir(string(d))
	for _, entry := range list {
		if is, err := entry.Info(); err == nil && is.Mode().IsRegular() {
			f(entry.Name(), is.Size())
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

const (
	partBytes    = 16 << 20        // memory of an upload. There are 10,000 parts at most: 156 GiB.
	metadataTime = 5 * time.Second // for the metadata service of a cloud, which other machines do not have
)

func newBucket(name, prefix, endpoint, region string) (*bucket, error) {
	at := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if endpoint != "" {
		var err error
		if at, err = url.Parse(endpoint); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
			return nil, fmt.Errorf("endpoint=%s: write https://host:port", endpoint)
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

// secure reports whether nobody else on the network can read what is sent.
func (b *bucket) secure() bool {
	at := b.client.EndpointURL()
	ip, _ := netip.ParseAddr(at.Hostname()) // a name is none
	return at.Scheme == "https" || at.Hostname() == "localhost" || ip.IsLoopback()
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing
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
