package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestLimitStateIsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(keyState{}); size != 64 {
		t.Errorf("a state is %d bytes, want 64: a decision reads it whole", size)
	}
}

// The table against Go's map, with hashes that collide often.
func TestLimitTableAgainstMap(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		collide := uint32(1)<<random.IntN(12) - 1
		hash := func(_ *Name, key string) uint32 {
			sum := uint32(0)
			for i := range len(key) {
				sum = sum*31 + uint32(key[i])
			}
			return sum & collide * 0x9e3779b1
		}
		var table table
		names := []*Name{{Name: "a"}, {Name: "b"}}
		plans := []*Plan{{Name: names[0]}, {Name: names[1]}}
		type id struct {
			name *Name
			key  string
		}
		model := map[id]*keyState{}
		for range 3000 {
			plan, key := plans[random.IntN(2)], fmt.Sprint(random.IntN(300))
			at := id{plan.Name, key}
			found := table.find(hash(plan.Name, key), plan.Name, key)
			if found != model[at] {
				t.Fatalf("seed %d: %v is %p, want %p", seed, at, found, model[at])
			}
			switch random.IntN(10) {
			case 0, 1, 2, 3:
				if found == nil {
					st := table.insert(hash(plan.Name, key))
					st.plan, st.key = plan, key
					model[at] = st
				}
			case 4, 5, 6:
				if found == nil || table.places() == 0 {
					continue
				}
				for place := range uint32(table.places()) {
					if table.at(place) == found {
						table.remove(place, hash(plan.Name, key))
						break
					}
				}
				delete(model, at)
			case 7:
				if random.IntN(50) == 0 {
					table.shrink(hash)
					model = map[id]*keyState{}
					table.each(func(st *keyState) { model[id{st.plan.Name, st.key}] = st })
				}
			}
			if table.used != len(model) {
				t.Fatalf("seed %d: %d states, want %d", seed, table.used, len(model))
			}
		}
	}
}
