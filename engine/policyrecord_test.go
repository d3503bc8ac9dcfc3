package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// watched collects a node's reports on the records of policies.
type watched struct {
	records map[string]string
	calls   int
}

func watchPolicies(n *node) *watched {
	w := &watched{}
	n.e.WatchPolicies(func(changes []engine.PolicyRecord, anew bool) {
		w.calls++
		if anew {
			w.records = make(map[string]string)
		}
		for _, c := range changes {
			delete(w.records, c.Name)
			if c.Value != nil {
				w.records[c.Name] = string(c.Value)
			}
		}
	})
	return w
}

func putPolicy(t *testing.T, s *engine.Session, name, value string) {
	t.Helper()
	require.NoError(t, s.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) {
		return []engine.PolicyRecord{{name, []byte(value)}}, nil
	}))
}

func dropPolicy(t *testing.T, s *engine.Session, name string) {
	t.Helper()
	require.NoError(t, s.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) {
		return []engine.PolicyRecord{{Name: name}}, nil
	}))
}

// Every node, the leader too, reports a change when it is committed, and not before.
func TestPoliciesAreToldWhenCommitted(t *testing.T) {
	leader, follower, late := scriptNode(t), newNode(t, engine.Config{}), newNode(t, engine.Config{})
	atLeader, atFollower, atLate := watchPolicies(leader), watchPolicies(follower), watchPolicies(late)
	putPolicy(t, leader.s, "a", "1")
	parts := leader.cut()
	putPolicy(t, leader.s, "a", "2")
	putPolicy(t, leader.s, "b", "1")
	require.Empty(t, atLeader.records)
	leader.l.Commit()
	require.NoError(t, follower.r.Apply(parts, start))
	want := map[string]string{"a": "1"}
	require.Equal(t, want, atLeader.records, "as it was when it was cut")
	require.Equal(t, want, atFollower.records)
	later := watchPolicies(leader)
	require.Equal(t, want, later.records, "what is not committed is not told")

	parts = leader.cut()
	dropPolicy(t, leader.s, "a")
	leader.l.Commit()
	require.NoError(t, follower.r.Apply(parts, start))
	require.Equal(t, map[string]string{"a": "2", "b": "1"}, atFollower.records)
	require.Equal(t, 3, atFollower.calls, "a batch is told as one")
	var snap bytes.Buffer
	require.NoError(t, leader.r.Snapshot().Persist(&snap))
	require.NoError(t, late.r.Restore(&snap, start))
	require.Equal(t, atFollower.records, atLate.records)
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	leader.l.Commit()
	require.Equal(t, map[string]string{"b": "1"}, atFollower.records)
	require.Equal(t, atFollower.records, later.records)
	require.Equal(t, leader.e.Digest(start), follower.e.Digest(start))
}

// A deposed leader has not reported the changes that it takes back.
func TestDeposeTakesBackPolicies(t *testing.T) {
	n := scriptNode(t)
	at := watchPolicies(n)
	putPolicy(t, n.s, "a", "1")
	n.cut()
	n.l.Commit()
	putPolicy(t, n.s, "a", "2")
	n.cut()
	dropPolicy(t, n.s, "a")
	before := maps.Clone(at.records)
	n.depose()
	require.Equal(t, before, at.records)
	err := n.s.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) { return nil, nil })
	require.ErrorIs(t, err, engine.ErrSealed)
	n.r.Lead(start)
	require.NoError(t, n.s.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		require.Equal(t, "1", string(get("a")))
		return nil, nil
	}))
}

// Without replication, a change is reported at once. A flush spares policies.
func TestPoliciesWithoutReplication(t *testing.T) {
	n := &node{e: engine.New(engine.Config{})}
	n.s = n.e.NewSession()
	defer n.s.Close()
	at := watchPolicies(n)
	putPolicy(t, n.s, "a", "1")
	require.Equal(t, map[string]string{"a": "1"}, at.records)
	require.NoError(t, n.s.Flush())
	require.NoError(t, n.s.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		require.Equal(t, "1", string(get("a")))
		return nil, nil
	}))
	refused := errors.New("refused")
	err := n.s.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) {
		return []engine.PolicyRecord{{Name: "a"}}, refused
	})
	require.Equal(t, refused, err)
	require.Equal(t, map[string]string{"a": "1"}, at.records)
}

func TestPoliciesAreBounded(t *testing.T) {
	n := &node{e: engine.New(engine.Config{})}
	n.s = n.e.NewSession()
	defer n.s.Close()
	put := func(name string, size int) error {
		return n.s.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) {
			return []engine.PolicyRecord{{name, make([]byte, size)}}, nil
		})
	}
	require.ErrorIs(t, put(strings.Repeat("n", 256), 1), engine.ErrSystemName)
	require.ErrorIs(t, put("a", engine.MaxPolicyRecord+1), engine.ErrPoliciesFull)
	big := make([]byte, engine.MaxPolicyRecord)
	require.NoError(t, n.s.EditPolicies(func(func(string) []byte) (changes []engine.PolicyRecord, err error) {
		for i := range engine.MaxPolicyBytes / engine.MaxPolicyRecord {
			changes = append(changes, engine.PolicyRecord{fmt.Sprint(i), big})
		}
		return changes, nil
	}))
	require.NoError(t, put("last", engine.MaxPolicyRecord/2))
	require.ErrorIs(t, put("more", engine.MaxPolicyRecord), engine.ErrPoliciesFull)
	dropPolicy(t, n.s, "0")
	require.NoError(t, put("more", engine.MaxPolicyRecord))
}
