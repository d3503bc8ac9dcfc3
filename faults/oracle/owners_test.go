package oracle

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// kinds are limits of states, by the id in the records. The last ones are those of group 0.
var kinds = []algo.Limit{
	{Limit: 10, Period: int64(time.Minute)},
	{Algorithm: algo.Counter, DB: 3},
	{Algorithm: algo.LeaseRecord, DB: algo.LeaseSpace},
	{Algorithm: algo.BlockRecord, DB: algo.BlockSpace},
	{Algorithm: algo.PolicyToken, Limit: 10, Period: int64(time.Minute)},
	{Algorithm: algo.HoldRecord, DB: algo.HoldSpace},
	{Algorithm: algo.OffenceRecord, DB: algo.OffenceSpace},
}

const firstOfGroup0 = 4

type kindLimits struct{}

func (kindLimits) LimitOf(id uint32) *algo.Limit { return &kinds[id] }

// groupLogs are the payloads of a cluster's groups.
type groupLogs struct{ enc []*effects.Encoder }

func newGroupLogs(groups int) *groupLogs {
	l := &groupLogs{}
	for range groups {
		l.enc = append(l.enc, effects.NewEncoder(kindLimits{}, effects.FirstFormats, math.MaxInt32, 0))
	}
	return l
}

// put writes the state of a key of a kind into a group's log, and then its absence.
func (l *groupLogs) put(group, kind int, key string) {
	space := kinds[kind].DB
	if space == algo.BlockSpace {
		key = string(binary.AppendUvarint(nil, uint64(len(key)))) + key + "holder"
	}
	l.enc[group].Put(shard.Image{Key: []byte(key), Space: space, Meta: uint32(kind), State: make([]byte, 8), Deadline: 1})
	l.enc[group].Remove(space, []byte(key))
}

// judge reads the logs of a node.
func (l *groupLogs) judge(t *testing.T, groups int) Finding {
	o := NewOwners(groups)
	for group, enc := range l.enc {
		for _, payload := range enc.Finish() {
			require.NoError(t, o.Payload("n1", group, payload))
		}
	}
	return o.Finding(nil)
}

// written is a right log of a cluster, with a shift of the routes by some groups.
func written(groups, shift int) *groupLogs {
	l := newGroupLogs(groups)
	route := func(key string) int { return (partition.GroupOf(slotOf([]byte(key)), groups) + shift) % groups }
	for i := range 200 {
		for kind := range firstOfGroup0 {
			key := fmt.Sprint("key:", i)
			l.put(route(key), kind, key)
		}
		policies := shift % groups
		for kind := firstOfGroup0; kind < len(kinds); kind++ {
			l.put(policies, kind, fmt.Sprint("@api:minute;user=", i))
		}
		home := fmt.Sprint("t", i%7)
		at := route(home)
		l.put(at, 4, fmt.Sprintf("@home:minute;user=%d;tenant=%s", i, home))
		l.put(at, 4, "@home:all;tenant="+home)
		l.put(at, 5, fmt.Sprintf("@+home;%d;%d", i, slotOf([]byte(home))))
		l.put(at, 6, "@home:all;tenant="+home)
		net := fmt.Sprint("n", i%5)
		l.put(route("two"), 4, "@two:all")
		l.put(at, 4, fmt.Sprintf("@two:user;user=%d;tenant=%s", i, home))
		l.put(at, 4, fmt.Sprintf("@nets:user;user=%d;tenant=%s", i, home))
		l.put(route(net), 4, fmt.Sprintf("@nets:net;net=%s;zone=%d", net, i))
		lease := fmt.Sprint("@api:minute;user=", i)
		l.put(policies, 2, lease)
		l.put(policies, 3, lease)
	}
	for g := range groups {
		l.enc[g].System(effects.SystemKey{Kind: effects.SystemCharged, Name: "n2"}, []byte{1})
	}
	l.enc[shift%groups].System(effects.SystemKey{Kind: effects.SystemPolicy, Name: "api"}, []byte("text"))
	return l
}

func TestOwnersOfEffects(t *testing.T) {
	for _, groups := range []int{1, 2, 12, 1024} {
		f := written(groups, 0).judge(t, groups)
		require.True(t, f.OK, "%d groups: %v", groups, f)
		require.Contains(t, f.Text, fmt.Sprintf("of %d of %d groups", groups, groups))
	}
}

// Each way to write to a group that is not the owner is seen, even once.
func TestOwnersSeeAWrongGroup(t *testing.T) {
	const groups = 12
	require.False(t, written(groups, 1).judge(t, groups).OK, "the route is off by one")
	key := "key:0"
	for g := range groups {
		for kind := range kinds {
			l := written(groups, 0)
			l.put(g, kind, key)
			owner := partition.GroupOf(slotOf([]byte(key)), groups)
			if kind >= firstOfGroup0 {
				owner = 0
			}
			// The absence of a policy's counter names no kind. Its key is not a policy's.
			right := g == owner && (kinds[kind].Algorithm != algo.PolicyToken || g == partition.GroupOf(slotOf([]byte(key)), groups))
			require.Equal(t, right, l.judge(t, groups).OK, "kind %v in group %d", kinds[kind].Algorithm, g)
		}
		l := written(groups, 0)
		l.enc[g].System(effects.SystemKey{Kind: effects.SystemScript, Name: "sha"}, []byte("text"))
		require.Equal(t, g == 0, l.judge(t, groups).OK, "a script in group %d", g)
	}
	tenant := func(key string) int { return partition.GroupOf(slotOf([]byte(key)), groups) }
	for key, owner := range map[string]int{"@home:all;tenant=t1": tenant("t1"), "@home:minute;user=5;tenant=t2": tenant("t2"), "@api:minute;user=9": 0,
		"@two:all": tenant("two"), "@two:user;tenant=t3;user=4": tenant("t3"), "@nets:net;zone=3;net=n2": tenant("n2")} {
		for g := range groups {
			for _, kind := range []int{4, 6} {
				l := written(groups, 0)
				l.put(g, kind, key)
				f := l.judge(t, groups)
				require.Equal(t, g == owner, f.OK, "%s in group %d: %v", key, g, f)
			}
		}
	}
	for g := range groups {
		l := written(groups, 0)
		l.put(g, 5, fmt.Sprint("@+home;id;", slotOf([]byte("t1"))))
		require.Equal(t, g == tenant("t1"), l.judge(t, groups).OK, "a hold")
		l = written(groups, 0)
		l.enc[g].System(effects.SystemKey{Kind: effects.SystemPolicy, Name: confirmedRecord}, []byte("7"))
		require.True(t, l.judge(t, groups).OK)
	}
	l := written(groups, 0)
	for i := range 50 {
		l.put(tenant(fmt.Sprint("u", i)), 4, fmt.Sprintf("@nets:third;user=u%d", i))
	}
	require.False(t, l.judge(t, groups).OK, "a third group")
	require.False(t, written(12, 0).judge(t, 11).OK, "a group too many")
	require.False(t, newGroupLogs(3).judge(t, 3).OK, "nothing to read")
}

// Keys with a hash tag belong to the tag's slot.
func TestSlotOf(t *testing.T) {
	for key, slot := range map[string]uint16{"123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}{b}": 12182, "foo{}{bar}": 8363, "": 0} {
		require.Equal(t, slot, slotOf([]byte(key)), key)
	}
}

func newPayload(t *testing.T) []byte {
	enc := effects.NewEncoder(kindLimits{}, effects.FirstFormats, math.MaxInt32, 0)
	enc.Remove(0, []byte("key"))
	parts := enc.Finish()
	require.Len(t, parts, 1)
	return parts[0]
}

func TestOwnersNameWhatWasNotRead(t *testing.T) {
	o := NewOwners(1)
	err := o.Payload("n1", 0, []byte{effects.Newest + 1})
	require.ErrorIs(t, err, effects.ErrEffects)
	require.NoError(t, o.Payload("n1", 0, newPayload(t)))
	f := o.Finding(err)
	require.True(t, f.OK, "%v: another build wrote it", f)
	require.Contains(t, f.Text, "not read: unreadable effects")
	require.False(t, o.Finding(io.ErrUnexpectedEOF).OK)
}
