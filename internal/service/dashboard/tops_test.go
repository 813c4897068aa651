package dashboard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A list that takes long is made aside, seldom, and views have the one before; one that does not is made each time.
func TestTops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tops TopsView
		defer tops.Close()
		const slow = 600 * time.Millisecond
		made := 0
		ask := func(context.Context) ([]string, error) {
			time.Sleep(slow)
			made++
			return []string{fmt.Sprint(made)}, nil
		}
		began := time.Now()
		if _, known, err := tops.keys(t.Context(), "slow", ask); known || err != nil || time.Since(began) > patience {
			t.Errorf("known: %v after %v, %v", known, time.Since(began), err)
		}
		for range 60 {
			time.Sleep(time.Second)
			began := time.Now()
			keys, known, err := tops.keys(t.Context(), "slow", ask)
			if !known || err != nil || len(keys) != 1 || time.Since(began) > patience {
				t.Errorf("%v %v %v after %v", keys, known, err, time.Since(began))
			}
		}
		if made < 4 || made > 6 {
			t.Errorf("made %d times in a minute", made)
		}
		quick := 0
		for range 5 {
			keys, known, err := tops.keys(t.Context(), "quick", func(context.Context) ([]string, error) {
				quick++
				return []string{fmt.Sprint(quick)}, nil
			})
			if !known || err != nil || keys[0] != fmt.Sprint(quick) {
				t.Errorf("%v %v %v", keys, known, err)
			}
			time.Sleep(time.Second)
		}
		wrong := errors.New("wrong")
		if _, _, err := tops.keys(t.Context(), "wrong", func(context.Context) ([]string, error) { return nil, wrong }); !errors.Is(err, wrong) {
			t.Error(err)
		}
	})
}

// Lists have a bound, and a closed Tops makes no more.
func TestTopsBound(t *testing.T) {
	var tops TopsView
	ask := func(context.Context) ([]string, error) { return nil, nil }
	for i := range maxLists + 10 {
		if _, _, err := tops.keys(t.Context(), fmt.Sprint(i), ask); err != nil {
			t.Fatal(err)
		}
	}
	if len(tops.lists) != maxLists || tops.lists["0"] != nil {
		t.Errorf("%d lists", len(tops.lists))
	}
	tops.Close()
	if _, known, _ := tops.keys(t.Context(), "new", ask); known {
		t.Error("a list is made though it is closed")
	}
}
