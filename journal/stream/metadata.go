package stream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/journal/record"
)

// Metadata of the streams: what all nodes that share them must agree on.
const (
	metaPartitions = "weir-partitions"
	metaRetention  = "weir-retention-s"
)

// Identity is what tells one journal from another.
type Identity struct {
	Journal    uint64 // 0: not known yet
	Partitions int
	RetentionS int64
}

func (of Identity) metadata() map[string]string {
	meta := map[string]string{metaPartitions: strconv.Itoa(of.Partitions), metaRetention: strconv.FormatInt(of.RetentionS, 10)}
	if of.Journal != 0 {
		meta[MetaJournal] = record.JournalText(of.Journal)
	}
	return meta
}

// fits refuses streams that were made for another engine.
func (of Identity) fits(have map[string]string) error {
	for name, want := range of.metadata() {
		if was := have[name]; name != MetaJournal && was != "" && was != want {
			return fmt.Errorf("it was made with %s %s, not %s: all nodes of a cluster use the same", strings.TrimPrefix(name, "weir-"), was, want)
		}
	}
	return nil
}
