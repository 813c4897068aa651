package read

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/weir-counter/weir"
	"github.com/weir-counter/weir/history/store"
)

// Ranking asks for the N keys with the most hits in [From, To), Unix seconds, of those that begin with Prefix.
type Ranking struct {
	Prefix   string
	From, To int64
	N        int
}

// KeyTotal is a key and its hits.
type KeyTotal struct {
	Key string
	Total
}

// Top are the keys with the most hits, by their lower bounds, most first: none that is left out has more, and of keys with
// as many as the last one has, any may be there.
//
// Sums of months and years are lists of keys by hits. Keys from the top of each list that touches the time are counted
// in the time itself, from ever further down, until one that is in none of these tops can't have as many as the last key that is asked
// for: no more than the last one of each top, all together (the threshold algorithm of Fagin, Lotem and Naor).
func Top(ctx context.Context, v *store.View, of Ranking, keep []store.Keep, now time.Time) ([]KeyTotal, error) {
	from, to := of.From/store.DaySeconds, (of.To+store.DaySeconds-1)/store.DaySeconds
	lists, err := v.ListsOf(ctx, from, to, slotsSince(keep, now))
	if err != nil {
		return nil, err
	}
	pick := store.Pick{Prefix: of.Prefix, Without: weir.AllKeys, WithoutPrefix: weir.SeparatePrefix}
	if strings.HasPrefix(of.Prefix, weir.SeparatePrefix) {
		pick.WithoutPrefix = ""
	}
	var top []KeyTotal
	counted := map[string]bool{}
	for deep := 2 * of.N; ; deep *= deeper {
		var found []string
		most := uint64(0) // that a key has which is in none of the tops
		for _, list := range lists {
			rest, err := v.Top(ctx, list, pick, deep, func(key string) {
				if !counted[key] {
					counted[key] = true
					found = append(found, key)
				}
			})
			if err != nil {
				return nil, err
			}
			most = sum(most, rest)
		}
		for _, key := range found {
			totals, err := Totals(ctx, v, key, []int64{of.From, of.To}, keep, now)
			if err != nil {
				return nil, err
			}
			if totals[0].Lower > 0 {
				top = append(top, KeyTotal{key, totals[0]})
			}
		}
		slices.SortFunc(top, func(a, b KeyTotal) int {
			return cmp.Or(cmp.Compare(b.Lower, a.Lower), cmp.Compare(a.Key, b.Key))
		})
		top = top[:min(of.N, len(top))]
		if most == 0 || len(top) == of.N && top[of.N-1].Lower >= most {
			return top, nil
		}
	}
}

// deeper is by how much further each look into the lists goes than the one before.
const deeper = 4

// slotsSince is the first day whose slots are not deleted of any key.
func slotsSince(keep []store.Keep, now time.Time) (day int64) {
	for _, k := range keep {
		slots, _ := kept(k.Prefix, []store.Keep{k}, now)
		day = max(day, slots)
	}
	return day
}
