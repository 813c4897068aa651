package ondisk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
)

// Alone makes the files of a cluster's node, or rather a copy of them, fit for a
// server alone: it removes the logs by which streams are replicated, and says of
// each stream that it has one replica.
func Alone(dir string) error {
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, groupsFolder)), os.RemoveAll(filepath.Join(dir, noteFile))); err != nil {
		return err
	}
	streams, err := filepath.Glob(filepath.Join(dir, streamsFolder, "*"))
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := oneReplica(stream); err != nil {
			return err
		}
	}
	return nil
}

// The configuration of a stream is a file of JSON, and beside it one with its
// HighwayHash, in hexadecimal, under a key of the stream's name.
const (
	configFile = "meta.inf"
	sumFile    = "meta.sum"
)

// oneReplica leaves a configuration that is damaged as it is: the server refuses
// the stream then.
func oneReplica(stream string) error {
	path := filepath.Join(stream, configFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil //nolint:nilerr // it is damaged
	}
	sum, err := os.ReadFile(filepath.Join(stream, sumFile))
	if err != nil || !bytes.Equal(sum, configSum(stream, data)) {
		return nil //nolint:nilerr // it is damaged
	}
	config := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	config["num_replicas"] = json.RawMessage("1")
	if data, err = json.Marshal(config); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(filepath.Join(stream, sumFile), configSum(stream, data), 0o600))
}

func configSum(stream string, config []byte) []byte {
	key := sha256.Sum256([]byte(filepath.Base(stream)))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	_, _ = hash.Write(config) // it never fails
	return []byte(hex.EncodeToString(hash.Sum(nil)))
}
