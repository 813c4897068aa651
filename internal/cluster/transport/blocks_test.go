package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const testStream = "S"

// storedStream is the folder of a stream of some blocks, as a real server leaves it:
// its first two messages are removed, and its fifth.
func storedStream(t *testing.T) (folder string) {
	t.Helper()
	dir := t.TempDir()
	server, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer func() {
		server.Shutdown()
		server.WaitForShutdown()
	}()
	if !server.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: testStream, Subjects: []string{"s"}, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		msg := &nats.Msg{Subject: "s", Data: make([]byte, 900<<10)}
		if i%2 == 0 {
			msg.Header = nats.Header{"A": {"b"}}
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(3)); err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, streamsFolder, testStream, "msgs")
}

func TestBlocks(t *testing.T) {
	folder := storedStream(t)
	numbers, err := blockNumbers(folder)
	if err != nil || len(numbers) < 3 {
		t.Fatalf("blocks %v, %v", numbers, err)
	}
	path := func(i int) string { return filepath.Join(folder, fmt.Sprintf("%d.blk", numbers[i])) }
	last := len(numbers) - 1
	state := &natsserver.StreamReplicatedState{Msgs: 27, FirstSeq: 3, LastSeq: 30, Deleted: natsserver.DeleteBlocks{&natsserver.DeleteRange{First: 5, Num: 1}}}
	for _, one := range []struct {
		name     string
		file     int
		change   func(data []byte) []byte // nil: the file is removed
		unbroken bool
		log      raftLog
		want     string // "": nothing is damaged
	}{
		{name: "nothing", change: slices.Clone[[]byte], log: raftLog{state: state}},
		{name: "a bit of a message", change: flip(2 << 20), want: "is damaged"},
		{name: "a bit of a length", change: flip(1), want: "is damaged"},
		{name: "a bit of the last block", file: last, change: flip(100), want: "is damaged"},
		{name: "a block is cut", file: 1, change: cut, want: "is damaged"},
		{name: "a block is gone", file: 1, unbroken: true, want: "are missing"},
		{name: "a block is gone, of a stream with holes", file: 1, log: raftLog{state: state}, want: "are missing"},
		{name: "a block is gone, and messages were removed since", file: 1, log: raftLog{state: state, removals: true}},
		{name: "the first block is gone", log: raftLog{state: state}, want: "messages 3 to 3"},
		{name: "the last block is gone", file: last, log: raftLog{state: state}, want: "to 30"},
		{name: "the end is cut, and the log's snapshot has it", file: last, change: cut, log: raftLog{state: state, removals: true}, want: "to 30"},
		{name: "the end is cut, as by a crash", file: last, change: cut},
	} {
		t.Run(one.name, func(t *testing.T) {
			was, err := os.ReadFile(path(one.file))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.WriteFile(path(one.file), was, 0o600); err != nil {
					t.Fatal(err)
				}
			}()
			if one.change == nil {
				err = os.Remove(path(one.file))
			} else {
				err = os.WriteFile(path(one.file), one.change(slices.Clone(was)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			found, err := checkStream(folder, testStream, one.unbroken, one.log)
			if err != nil || (len(found) > 0) != (one.want != "") || !strings.Contains(fmt.Sprint(found), one.want) {
				t.Errorf("found %v, %v; want %q", found, err, one.want)
			}
		})
	}
}

func flip(at int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[at] ^= 16
		return data
	}
}

func cut(data []byte) []byte { return data[:len(data)*2/3] }
