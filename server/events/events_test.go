package events

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// all returns the events of a log, read a few at a time, and how many were lost.
func all(t *testing.T, l *Log, from int64) (out []Event, lost int64) {
	t.Helper()
	for {
		lines, next, gone, _ := l.Read(nil, from, 7, 1<<10)
		lost += gone
		if len(lines) == 0 {
			require.Equal(t, l.Newest(0), next)
			return out, lost
		}
		for _, line := range lines {
			var e Event
			require.NoError(t, json.Unmarshal(line.JSON, &e))
			require.Equal(t, line.ID, e.ID)
			require.Equal(t, line.Type, e.Type)
			out = append(out, e)
		}
		require.Equal(t, lines[len(lines)-1].ID+1, next)
		from = next
	}
}

// A log keeps the newest events, in number and in bytes, and returns how many are lost.
func TestLogIsBounded(t *testing.T) {
	l := New()
	begin := l.Newest(0)
	for range MaxEvents + 10 {
		l.Post(Event{Type: Role, Role: "x"})
	}
	out, lost := all(t, l, begin)
	require.Len(t, out, MaxEvents)
	require.EqualValues(t, 10, lost)
	require.EqualValues(t, 10, l.Unread())
	require.Equal(t, begin+10, out[0].ID)

	large := Event{Type: Role, Role: strings.Repeat("r", 100<<10)}
	for range 60 {
		l.Post(large)
		require.LessOrEqual(t, l.bytes, MaxBytes)
	}
	out, _ = all(t, l, begin)
	require.Equal(t, MaxBytes/(100<<10+50), len(out))

	// This node has lost no events from before a restart, and none that are still to come.
	out, lost = all(t, New(), begin)
	require.Empty(t, out)
	require.Zero(t, lost)
	out, lost = all(t, l, begin+1<<40)
	require.Empty(t, out)
	require.Zero(t, lost)
	require.Greater(t, New().Newest(0), begin)
}

func TestWhoListens(t *testing.T) {
	l := New()
	require.False(t, l.Listening())
	stop := l.Listen()
	require.True(t, l.Listening())
	require.True(t, l.Settle())
	stop()
	require.False(t, l.Settle())
	require.False(t, l.Listening())
	l.Poll()
	require.True(t, l.Settle(), "who has asked asks again")
	l.polled = l.polled.Add(-PollFor)
	require.False(t, l.Settle())

	_, next, _, more := l.Read(nil, l.Newest(0), 1, 1)
	select {
	case <-more:
		t.Fatal("there is nothing")
	default:
	}
	l.Post(Event{})
	<-more
	lines, _, _, _ := l.Read(nil, next, 1, 1)
	require.Len(t, lines, 1, "one at least, however long")
}

// The first denial is posted at once, and those of the following second together.
func TestDenialsAreCountedTogether(t *testing.T) {
	l := New()
	d := NewDenials(l)
	begin := l.Newest(0)
	eve := Denial{Type: Denied, Policy: "p", Limit: "user", Reason: "limit", Key: []byte("@p:user;user=eve")}
	for i := range int64(1000) {
		d.Note(i*1e6, &eve) // one each ms
	}
	d.Sweep(second-1, false)
	out, _ := all(t, l, begin)
	require.Len(t, out, 1)
	require.EqualValues(t, 1, out[0].Count)
	d.Note(second, &eve)
	d.Note(second+1e6, &eve)
	out, _ = all(t, l, begin)
	require.Len(t, out, 2)
	require.EqualValues(t, 1000, out[1].Count)
	require.EqualValues(t, 1000, out[1].At)
	d.Sweep(2*second, false)
	d.Sweep(3*second, false)
	out, _ = all(t, l, begin)
	require.Len(t, out, 3, "the last ones are told when their second is over")
	require.EqualValues(t, 1, out[2].Count)
	d.Sweep(4*second, false)
	for i := range d.stripes {
		require.Empty(t, d.stripes[i].counted, "who is denied no more is forgotten")
	}

	// Denials that differ in anything are counted apart.
	begin = l.Newest(0)
	for _, other := range []Denial{
		eve, {Denied, "p", "user", "missing", eve.Key}, {Denied, "p", "all", "limit", eve.Key}, {Denied, "q", "user", "limit", eve.Key},
		{Shadow, "p", "user", "limit", eve.Key}, {Denied, "p", "user", "limit", []byte("@p:user;user=bob")}, {Denied, "p", "", "deny", nil},
	} {
		d.Note(10*second, &other)
	}
	out, _ = all(t, l, begin)
	require.Len(t, out, 7)
	begin = l.Newest(0)
	for i := range 8 * stripes { // of which some share a stripe
		d.Note(12*second, &Denial{Denied, "p", "user", "limit", fmt.Appendf(nil, "@p:user;user=%d", i)})
	}
	out, _ = all(t, l, begin)
	require.Len(t, out, 8*stripes)
}

// However many callers are denied, memory and events are bounded. Posted and dropped denials
// together are all.
func TestDenialsAreBounded(t *testing.T) {
	l := New()
	d := NewDenials(l)
	begin := l.Newest(0)
	rnd := rand.New(rand.NewPCG(3, 4))
	const denials = 50_000
	now := int64(0)
	for i := range denials {
		now += int64(second) / 20_000
		d.Note(now, &Denial{Type: Denied, Policy: "p", Limit: "l", Reason: "limit", Key: fmt.Appendf(nil, "%d%s", rnd.IntN(20_000), strings.Repeat("x", 300))})
		if i%2000 == 0 {
			d.Sweep(now, false)
		}
	}
	kept := 0
	for i := range d.stripes {
		require.LessOrEqual(t, len(d.stripes[i].counted), stripeMost)
		kept += len(d.stripes[i].counted)
	}
	require.NotZero(t, kept)
	d.Sweep(now, true)
	out, lost := all(t, l, begin)
	require.Zero(t, lost)
	require.LessOrEqual(t, len(out)-kept, 4*maxASecond)
	told := d.Dropped()
	require.NotZero(t, told)
	for _, e := range out {
		told += e.Count
		require.Len(t, e.Key, MaxKey)
	}
	require.EqualValues(t, denials, told)

	// Nor do callers fill the memory whom nobody forgets.
	d = NewDenials(New())
	for i := range int64(20_000) {
		d.Note(i*second/900, &Denial{Type: Denied, Key: strconv.AppendInt(nil, i, 10)})
	}
	for i := range d.stripes {
		require.Len(t, d.stripes[i].counted, stripeMost)
	}
}

// Events are what json.Marshal makes of them.
func TestJSONOfEvents(t *testing.T) {
	texts := []string{"", "a", "limit:l;user=eve", `"`, `\`, "<a&b>", "ä", "\x7f", "\x00\n", "\xff"}
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string { return texts[rng.IntN(len(texts))] }
	number := func() uint64 { return rng.Uint64() >> 1 >> rng.IntN(64) }
	for range 1000 {
		e := Event{
			ID: int64(number()), At: int64(number()), Type: Type(text()), Policy: text(), Limit: text(), Key: text(), Reason: text(),
			Count: number(), For: int64(number()), Version: number(), Author: text(), Change: text(), Deleted: rng.IntN(2) == 0, Role: text(), Leader: text(),
		}
		if group := rng.IntN(3); group > 0 {
			group--
			e.Group = &group
		}
		want, err := json.Marshal(&e)
		require.NoError(t, err)
		require.Equal(t, string(want), string(e.appendJSON(nil)))
	}
}
