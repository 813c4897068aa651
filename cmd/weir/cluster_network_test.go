package main

import (
	"testing"

	"github.com/weir-counter/weir/internal/cluster/transport/transporttest"
)

// network is what nodes reach each other by.
type network interface {
	// Cut cuts a node off as a cable is: nothing arrives any more, and no
	// connection ends.
	Cut(node string, cut bool)
	// within is what the command line of node i begins with.
	within(i int) []string
	// reach is where this process reaches what node i serves at addr.
	reach(i int, addr string) string
}

// loopback is nodes of this machine, with a Network between their cluster ports.
type loopback struct{ *transporttest.Network }

func newLoopback(t *testing.T) loopback { return loopback{transporttest.NewNetwork(t, 0)} }

func (loopback) within(int) []string { return nil }

func (loopback) reach(_ int, addr string) string { return addr }
