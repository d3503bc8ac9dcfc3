package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
)

// blocklist is a file with a list of n addresses of 64 bytes, and a policy that denies
// these.
func blocklist(n int, domain string) string {
	var b strings.Builder
	b.WriteString("policies: {p: {deny: [{user: {list: bad}}], limits: {l: {by: user, rate: 5/h}}}}\nlists:\n  bad:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - %s\n", member(i, domain))
	}
	return b.String()
}

// member is an entry of a blocklist.
func member(i int, domain string) string {
	return fmt.Sprintf("somebody-%0*d@%s", 64-len("somebody-@")-len(domain), i, domain)
}

// A list may have as many entries as the reference promises, longer than a record by
// far: on every node, in snapshots, and as an earlier version.
func TestListOfAsManyEntriesAsPromised(t *testing.T) {
	leader, follower, late := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following), newPolicyNode(t, partition.Following)
	commit := func(want string, args ...string) {
		t.Helper()
		leader.send(args...)
		parts, ok := leader.replica.Cut(256 << 10)
		require.True(t, ok, leader.m.take())
		for _, part := range parts {
			require.LessOrEqual(t, len(part), 256<<10)
		}
		require.True(t, leader.l.Commit())
		require.NoError(t, follower.replica.Apply(parts, leader.e.Now()))
		leader.s.Partition().Release(leader.f.ticket.Add(1)-1, nil)
		leader.m.settle()
		require.Equal(t, want, leader.m.take())
	}
	denied := func(n *policyNode, user string, want bool) {
		t.Helper()
		got := n.ask(t, "RL.CHECK", "p", "user", user, "PEEK")
		require.Equal(t, want, strings.HasPrefix(got, "*13\r\n:0\r\n"), got)
	}
	loaded := func(version int) string {
		return fmt.Sprintf("*2\r\n*4\r\n$4\r\nname\r\n$9\r\nlists/bad\r\n$7\r\nversion\r\n:%d\r\n*4\r\n$4\r\nname\r\n$1\r\np\r\n$7\r\nversion\r\n:1\r\n", version)
	}
	first, last := member(0, "one.example"), member(policy.MaxListed-1, "one.example")
	require.Len(t, last, 64)
	commit(loaded(1), "RL.POLICY", "LOAD", blocklist(policy.MaxListed, "one.example"))
	denied(leader, first, true)
	denied(leader, last, true)
	denied(leader, "eve", false)
	commit(loaded(2), "RL.POLICY", "LOAD", blocklist(policy.MaxListed, "two.example"))
	denied(leader, first, false)
	denied(leader, member(7, "two.example"), true)
	commit(":3\r\n", "RL.POLICY", "ROLLBACK", "lists/bad", "1")

	var snap bytes.Buffer
	require.NoError(t, follower.replica.Snapshot().Persist(&snap))
	require.NoError(t, late.replica.Restore(&snap, leader.e.Now()))
	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	for _, n := range []*policyNode{leader, follower, late} {
		n.replica.Lead(leader.e.Now())
		n.f.become(partition.Leading)
		denied(n, first, true)
		denied(n, last, true)
		denied(n, "eve", false)
		denied(n, member(7, "two.example"), false)
		for version, domain := range []string{"one.example", "one.example", "two.example", "one.example"} {
			args := []string{"RL.POLICY", "GET", "lists/bad", "VERSION", fmt.Sprint(version)}
			if version == 0 {
				args = args[:3]
			}
			require.True(t, strings.Contains(n.ask(t, args...), member(policy.MaxListed-1, domain)), args)
		}
		require.True(t, strings.HasPrefix(n.ask(t, "RL.POLICY", "HISTORY", "lists/bad"), "*3\r\n"))
		require.Contains(t, n.ask(t, "RL.POLICY", "LIST"), "lists/bad")
	}
}

// Every command about versions takes a list that is longer than a record.
func TestCommandsOfALongList(t *testing.T) {
	r := newRig(t, engine.Config{})
	list := func(of string) string {
		return strings.Repeat("- "+strings.Repeat("a", 240)+"\n", 2200) + "- " + of + "\n"
	}
	set := func(of string, options ...string) string {
		return format(r.parse(r.raw(append(append([]string{"RL.POLICY", "SET", "lists/l"}, options...), list(of))...)))
	}
	require.Equal(t, "1", set("one"))
	r.setPolicy("p", `{deny: [{user: {list: l}}], limits: {l: {rate: 10/h}}}`)
	require.Equal(t, "1", set("one"), "the same text is no new version")
	require.Contains(t, set("two", "DRYRUN"), "two")
	require.Equal(t, "-VERSION the policy has another version: 1", set("two", "IF", "7"))
	require.Equal(t, "2", set("two"))
	require.Equal(t, "deny", r.check("p user two PEEK").reason)
	require.Equal(t, "ok", r.check("p user one PEEK").reason)
	r.is("RL.POLICY DIFF lists/l 2", "[]")
	require.Contains(t, format(r.words("RL.POLICY DIFF lists/l 1")), "two")
	require.True(t, pair(t, r.words("RL.POLICY GET lists/l VERSION 1"), "text") == list("one"))
	r.is("RL.POLICY ROLLBACK lists/l 1", "3")
	r.is("RL.POLICY DIFF lists/l 1", "[]")
	require.Equal(t, "deny", r.check("p user one PEEK").reason)
	require.Len(t, r.words("RL.POLICY HISTORY lists/l"), 3)
	r.is("RL.POLICY LIST", "[[name lists/l version 3] [name p version 1]]")
	r.is("RL.POLICY ROLLBACK lists/l 9", "-ERR version 9 of lists/l is not kept")
	r.is("RL.POLICY DEL p", "2")
	r.is("RL.POLICY DEL lists/l", "4")
	r.is("RL.POLICY GET lists/l", "nil")
	r.is("RL.POLICY ROLLBACK lists/l 2", "5")
	require.True(t, pair(t, r.words("RL.POLICY GET lists/l"), "text") == list("two"))
}
