package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counter makes answers that count how often one was made, each of which takes a time.
type counter struct {
	takes time.Duration
	made  int
}

func (c *counter) ask(ctx context.Context) (string, error) {
	select {
	case <-time.After(c.takes):
		c.made++
		return fmt.Sprint(c.made), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// All who ask the same get one answer, which is made anew after a second.
func TestAnswersAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers Answers
		c := counter{takes: time.Millisecond}
		for second := range 5 {
			var asking sync.WaitGroup
			for range 20 {
				asking.Go(func() {
					got, err := Shared(t.Context(), &answers, "a", c.ask)
					if want := fmt.Sprint(second + 1); err != nil || got != want && got != fmt.Sprint(second) {
						t.Errorf("%q in second %d: %v", got, second, err)
					}
				})
			}
			asking.Wait()
			time.Sleep(every)
		}
		if c.made != 5 {
			t.Errorf("made %d times in 5 s", c.made)
		}
		wrong := errors.New("wrong")
		for range 2 {
			if _, err := Shared(t.Context(), &answers, "wrong", func(context.Context) (int, error) { return 0, wrong }); !errors.Is(err, wrong) {
				t.Error(err)
			}
		}
	})
}

// An answer that takes long is made seldom, and others get the one before meanwhile.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers Answers
		c := counter{takes: 600 * time.Millisecond}
		waited := 0
		for range 120 {
			began := time.Now()
			if _, err := Shared(t.Context(), &answers, "a", c.ask); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > 0 {
				waited++
			}
			time.Sleep(every)
		}
		if c.made < 8 || c.made > 12 || waited > c.made {
			t.Errorf("made %d times in two minutes, and %d requests waited", c.made, waited)
		}
	})
}

// A client that leaves while it makes an answer spoils it for nobody, nor does an answer that panics.
func TestAnswersOfClientsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers Answers
		c := counter{takes: time.Second}
		leaving, leave := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := Shared(leaving, &answers, "a", c.ask); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		asking.Go(func() {
			if got, err := Shared(t.Context(), &answers, "a", c.ask); got != "1" || err != nil {
				t.Errorf("%q %v", got, err)
			}
		})
		synctest.Wait()
		leave()
		asking.Wait()
		func() {
			defer func() { _ = recover() }()
			_, _ = Shared(t.Context(), &answers, "panics", func(context.Context) (string, error) { panic("wrong") })
		}()
		if got, err := Shared(t.Context(), &answers, "panics", c.ask); got != "2" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		if _, err := Shared(t.Context(), &answers, "hangs", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Answers have a bound, and those that nobody asks for are forgotten.
func TestAnswersBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers Answers
		ask := func(name string) {
			if _, err := Shared(t.Context(), &answers, name, func(context.Context) (string, error) { return name, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for i := range maxAnswers + 10 {
			time.Sleep(time.Millisecond)
			ask(fmt.Sprint(i))
		}
		if len(answers.list) != maxAnswers || answers.list["0"] != nil {
			t.Errorf("%d answers", len(answers.list))
		}
		time.Sleep(forgetAfter + time.Second)
		ask("new")
		if len(answers.list) != 1 {
			t.Errorf("%d answers after a while", len(answers.list))
		}
	})
}

// An answer that nobody has asked for lately is given to nobody, while the next one is made.
func TestOldAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers Answers
		c := counter{takes: time.Millisecond}
		for _, want := range []string{"1", "2"} {
			var asking sync.WaitGroup
			for range 3 {
				asking.Go(func() {
					if got, err := Shared(t.Context(), &answers, "a", c.ask); err != nil || got != want {
						t.Errorf("%q, want %s: %v", got, want, err)
					}
				})
			}
			asking.Wait()
			time.Sleep(time.Hour)
		}
	})
}
