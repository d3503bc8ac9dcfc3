package policies

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/events"
)

// longList is the text of a list of n entries of 240 bytes.
func longList(n int, of string) string {
	return strings.Repeat("- "+of+strings.Repeat("x", 240-len(of))+"\n", n)
}

// parts counts the parts that a node keeps, by version.
func (b *Book) parts(name string) map[uint64]int {
	counts := map[uint64]int{}
	for record := range b.queue.records {
		var version uint64
		var part int
		if n, _ := fmt.Sscanf(record, partPrefix+name+"/%d/%d", &version, &part); n == 2 {
			counts[version]++
		}
	}
	return counts
}

// A text may be as long as a file, whatever it contains. It is in parts if a record is too
// small for it, and comes back unchanged.
func TestTextsInParts(t *testing.T) {
	for _, text := range []string{
		"", "short", strings.Repeat("a", engine.MaxPolicyRecord-1), strings.Repeat("<", engine.MaxPolicyRecord/2),
		strings.Repeat("a", engine.MaxPolicyRecord+1), strings.Repeat("é<\n", grammar.MaxFile/4), strings.Repeat("a", 10*partBytes),
	} {
		st := stored{Version: 7, Revision: 9, Author: "ops", Text: text}
		kept := map[string][]byte{}
		for _, r := range st.records("lists/l") {
			require.LessOrEqual(t, len(r.Value), engine.MaxPolicyRecord)
			kept[r.Name] = r.Value
		}
		require.Equal(t, len(text) < engine.MaxPolicyRecord/2, len(kept) == 1)
		parts := partsOf("lists/l", kept["lists/l"], func(name string) []byte { return kept[name] })
		require.Len(t, parts, len(kept)-1)
		got, err := decodeStored(kept["lists/l"])
		require.NoError(t, err)
		require.NoError(t, got.join(parts))
		require.True(t, text == got.Text)
		require.Equal(t, st.Author, got.Author)
		if len(parts) > 0 {
			require.ErrorIs(t, got.join(parts[1:]), errStored)
		}
	}
}

// The earlier versions of a long list are bounded in bytes. The last one is always kept, and
// the parts of deleted ones are deleted too.
func TestEarlierLongListsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	b := newTestBook()
	ed := NewEditor(b, slog.New(slog.DiscardHandler), nil)
	sess := b.engine.NewSession()
	defer sess.Close()
	set := func(text string) {
		t.Helper()
		c, err := ed.setting("lists/l", text, changeArgs{version: -1})
		require.NoError(t, err)
		_, err = ed.commit(sess, c, true)
		require.NoError(t, err)
	}
	long := (240 + 3) * 25_000
	each := (long + partBytes - 1) / partBytes
	for v := range 4 {
		set(longList(25_000, fmt.Sprint(v)))
	}
	set(longList(25_000, "3")) // the same text is no new version
	require.Greater(t, 3*long, keptBytes)
	b.Set()
	require.Equal(t, map[uint64]int{2: each, 3: each, 4: each}, b.parts("lists/l"))
	_, ok := b.versionOf("lists/l", 1)
	require.False(t, ok)
	st, ok := b.versionOf("lists/l", 2)
	require.True(t, ok)
	require.True(t, st.Text == longList(25_000, "1"))
	set(longList(65_000, "4"))
	set(longList(65_000, "5"))
	set("- a")
	b.Set()
	whole := (65_000*243 + partBytes - 1) / partBytes
	require.Equal(t, map[uint64]int{6: whole}, b.parts("lists/l"), "the one before, though it is as long as all may be")
	for v := range keptVersions {
		set(fmt.Sprintf("- a%d", v))
	}
	b.Set()
	require.Empty(t, b.parts("lists/l"))
	require.Len(t, b.queue.records, 1+1+keptVersions, "the revision, the present one, and those before")
}

// A node that takes several versions over at once needs the parts of the last one only.
func TestPartsThatAreGoneAlready(t *testing.T) {
	var log bytes.Buffer
	quiet := slog.New(slog.NewTextHandler(&log, nil))
	b := NewBook(engine.New(engine.Config{Shards: 8}), nil, quiet, false, events.New(), checks.NewTallies())
	b.making.Lock() // somebody is at it
	first := stored{Version: 1, Revision: 1, Text: longList(3000, "first")}
	second := stored{Version: 2, Revision: 2, Text: longList(3000, "second")}
	one, two := first.records("lists/l"), second.records("lists/l")
	b.hear(one, false)
	for i := range one[1:] {
		two = append(two, engine.PolicyRecord{Name: one[1+i].Name})
	}
	b.hear(append(two, ofPolicy("p", 1, 5)), false)
	b.making.Unlock()
	b.Set()
	require.Empty(t, log.String())
	require.NoError(t, b.trouble("lists/l"))

	// Of a list without its parts it says so, and the parts heal it.
	third := stored{Version: 3, Revision: 3, Text: longList(3000, "third")}
	b.hear(third.records("lists/l")[:1], false)
	b.Set()
	require.ErrorIs(t, b.trouble("lists/l"), errStored)
	require.Contains(t, log.String(), "0 of them are here")
	b.hear(third.records("lists/l"), true)
	b.Set()
	require.NoError(t, b.trouble("lists/l"))
}
