package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-counter/weir/cluster/peers"
	"github.com/weir-counter/weir/policy/admit"
	"github.com/weir-counter/weir/service"
)

// openSettings compares settings with the other nodes of a cluster from now on. It follows openPolicies.
func (n *Node) openSettings(sockets *sockets) error {
	of := sockets.settings
	if of == nil {
		return nil
	}
	of.Own = func() []peers.Setting { return n.settings(sockets.Policies) }
	if err := of.Listen(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		of.Run(ctx)
	}()
	n.parts.opened(func(context.Context) error {
		stop()
		<-done
		return nil
	})
	others := sockets.Alarms
	sockets.Alarms = func() (list []service.Alarm) {
		for _, a := range of.Alarms() {
			list = append(list, service.Alarm(a))
		}
		return append(list, others()...)
	}
	return nil
}

// settings are those that all nodes of a cluster need alike, as they are now: with others a key is limited, or told to other
// regions, as the node has it that is asked.
func (n *Node) settings(policies *admit.Live) []peers.Setting {
	keys := slices.Sorted(slices.Values(n.cfg.Regions.Keys))
	file := policies.Set().Content()
	return []peers.Setting{
		setting("--policy", string(file[:])),
		setting("--policies-api", n.cfg.Policies.API),
		setting("--max-inline-per", n.cfg.Service.MaxInlinePer.String()),
		setting("--replicas", strconv.Itoa(n.cfg.Journal.Replicas)),
		setting("--region", n.cfg.Regions.Region),
		setting("--region-keys", strings.Join(keys, "\x00")),
	}
}

func setting(name, value string) peers.Setting {
	hash := sha256.Sum256([]byte(value))
	return peers.Setting{Name: name, Hash: binary.LittleEndian.Uint64(hash[:])}
}
