package history

import (
	"errors"
	"testing"
	"time"
)

// The node that writes history says how late it is, and so do nodes that can't tell who writes.
func TestStatsSayHowLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	is := WriterStatus{Known: true, AsOf: now.Add(-time.Hour), Message: 3, Writes: true}
	if st := is.stats(10, now); st.Lag == nil || *st.Lag != 3600 || *st.Unread != 7 {
		t.Errorf("%+v", st)
	}
	if is.Writes = false; is.stats(10, now).Lag != nil {
		t.Error("a node that another writes for knows how late history is")
	}
	if is.Err = errors.New("away"); is.stats(10, now).Lag == nil {
		t.Error("nobody says how late history is while its database is away")
	}
	if is.Known = false; is.stats(10, now).Lag != nil {
		t.Error("how late history is was known before its database was ever there")
	}
}
