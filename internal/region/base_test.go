package region

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// halfBase returns a world without harm, a mesh of three regions, the first two of which have got the first piece of the
// third's base, and the pieces of that base.
func halfBase(t *testing.T) (w *simWorld, pieces [][]byte) {
	w = &simWorld{t: t, rng: rand.New(rand.NewPCG(1, 3)), tally: &simTally{}, clock: simNow, pieces: PieceBytes}
	w.nameKeys()
	w.build(3, simMesh)
	for range 20 {
		w.regions[2].journal.write()
	}
	w.regions[2].journal.complete()
	w.act(2)
	for _, message := range w.regions[2].log.messages {
		data := message.data
		if m, err := Decode(data); err == nil && m.Piece != nil {
			pieces = append(pieces, data)
		}
	}
	if len(pieces) != simPartitions+1 {
		t.Fatalf("the base has %d pieces", len(pieces))
	}
	for i := range 2 { // each sends the other what comes live
		w.fill(i, linkTo(w, i, 1-i))
	}
	for i := range 2 {
		w.take(i, linkTo(w, i, 1-i), pieces[0])
	}
	return w, pieces
}

func linkTo(w *simWorld, region, other int) *simLink {
	for _, l := range w.regions[region].links {
		if l.from == other {
			return l
		}
	}
	return nil
}

// TestHalfABaseStays checks that two regions which have half a base of a third do not send it to and fro, and take the whole
// of it from a region that has it.
func TestHalfABaseStays(t *testing.T) {
	t.Parallel()
	w, pieces := halfBase(t)
	for range 20 {
		for i := range 2 {
			l := linkTo(w, i, 1-i)
			w.fill(i, l)
			if len(l.underWay) > 0 {
				t.Fatalf("region %s sends half a base", w.regions[1-i].name)
			}
		}
	}
	w.clock = w.clock.Add(2 * buildPause)
	for i := range 2 {
		w.drain(i)
		if n := len(w.regions[i].log.messages); n != len(pieces) {
			t.Errorf("region %s has %d messages of %d pieces", w.regions[i].name, n, len(pieces))
		}
		if n := w.regions[i].nodes[0]; n.ledger.Region("c") == nil || n.ledger.Region("c").Bases() != 1 {
			t.Errorf("region %s does not have the base", w.regions[i].name)
		}
	}
}

// TestPiecesAgain checks that pieces of a base which come again do not grow the log, and that pieces of two bases do not
// mix.
func TestPiecesAgain(t *testing.T) {
	t.Parallel()
	w, pieces := halfBase(t)
	n, link := w.regions[0].nodes[0], linkTo(w, 0, 1).number
	take := func(data []byte) error {
		m, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		return n.accept(t.Context(), offer{link: link, messages: []Message{m}, data: [][]byte{data}})
	}
	appended := func(want int) {
		t.Helper()
		if got := len(w.regions[0].log.messages); got != want {
			t.Errorf("the log has %d messages, want %d", got, want)
		}
	}
	for range 10 {
		if err := take(pieces[0]); err != nil {
			t.Fatal(err)
		}
	}
	appended(1)
	if err := take(pieces[1]); err != nil {
		t.Fatal(err)
	}
	appended(2)

	other := otherBase(t, pieces)
	if err := take(other[1]); !errors.Is(err, errMixed) {
		t.Fatal(err)
	}
	appended(2)
	for _, data := range [][]byte{other[0], other[0], other[1]} { // the link is begun anew
		if err := take(data); err != nil {
			t.Fatal(err)
		}
	}
	appended(4)
	if err := take(pieces[2]); !errors.Is(err, errMixed) { // its number is the next, and it is of the first base
		t.Fatal(err)
	}
	appended(4)
	for _, data := range other { // anew, as after each such error
		if err := take(data); err != nil {
			t.Fatal(err)
		}
	}
	appended(5)
	last, err := Decode(other[1])
	if err != nil {
		t.Fatal(err)
	}
	if known := n.ledger.Region("c"); known.Bases() != 1 || known.Audit.Totals[last.Piece.Partition] != last.Piece.Total {
		t.Errorf("the base is not the one that was built last: %+v", known.Audit)
	}
}

// otherBase returns another base of the same digest, which differs from the second piece on.
func otherBase(t *testing.T, pieces [][]byte) (other [][]byte) {
	for i, data := range pieces {
		m, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			m.Piece.Before++
		} else {
			before, err := Decode(other[i-1])
			if err != nil {
				t.Fatal(err)
			}
			m.Piece.Before = NextHash(before.Piece.Before, other[i-1])
		}
		if i == 1 {
			m.Piece.Total++
		}
		other = append(other, m.Encode())
	}
	return other
}

// A region that comes back with an empty disk finds its earlier life once; a second region of its name shows again and again.
func TestContestedName(t *testing.T) {
	t.Parallel()
	w, _ := halfBase(t)
	n := w.regions[0].nodes[0]
	see := func(epoch uint64) {
		n.seeOwn(Message{Region: "a", ID: ID{Epoch: epoch, Seq: 1}})
	}
	reported := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		_, reported := n.sharedNames["a"]
		return reported
	}
	see(1 << 50) // of the life before
	n.renewed = w.clock
	see(1 << 51) // of one that another link knew
	see(1 << 51)
	w.clock = w.clock.Add(2 * twiceFor)
	see(1 << 52)
	if reported() {
		t.Error("reported after two losses of disks")
	}
	w.clock = w.clock.Add(beginEvery)
	see(1 << 53)
	if !reported() {
		t.Error("not reported")
	}
}
