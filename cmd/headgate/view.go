package main

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/server/web/admin"
)

// view supplies the state of the node and its cluster to the admin API.
type view struct {
	*source
	id string
}

var _ admin.View = (*view)(nil)

// Now implements admin.View.
func (v *view) Now() admin.Now {
	clients, keys, policies := v.front.Stats(), engine.Sum(v.engines), v.front.Policies()
	n := admin.Now{
		Node: v.id, Version: buildVersion(), Started: started.UTC().Format(time.RFC3339), Leader: v.node == nil || v.node.Group(0).Status().Serving,
		InCluster: v.node != nil,
		Commands:  clients.Commands, Degraded: clients.Degraded, Errors: clients.ErrorReplies, Unknown: v.front.UnknownPolicies(),
		Clients: int64(clients.Clients), Keys: int64(keys.Keys), Memory: keys.Bytes, MemoryLimit: keys.MaxBytes,
		Holds: int64(keys.Holds), Offenders: int64(keys.Offenders),
		Policies: int64(policies.Policies), Revision: int64(policies.Revision),
	}
	for _, d := range v.front.Decisions() {
		n.Allowed += d.Allowed
		n.Denied += d.Denied
	}
	return n
}

// started is when the process began.
var started = time.Now()

// Cluster implements admin.View.
func (v *view) Cluster() *admin.Cluster {
	if v.node == nil {
		return nil
	}
	first := v.node.Group(0)
	s := first.Status()
	c := &admin.Cluster{
		Node: s.NodeID, State: s.State, Role: first.Role().String(), Leader: s.LeaderID, Term: s.Term, Commit: s.CommitIndex, Applied: s.AppliedIndex,
		Level: s.Level, HeldBack: heldBack(&s), Troubles: troubles(&s), Differ: []string{}, Differences: []admin.Difference{}, Members: []admin.Member{},
	}
	if s.Serving {
		c.Unacked = s.Progress.Unacked.Milliseconds()
	}
	secret := make(map[string]bool)
	for _, parameter := range v.node.Settings() {
		secret[parameter.Name] = parameter.Secret
	}
	for _, d := range cluster.Differences(&s) {
		c.Differ = append(c.Differ, d.Name)
		c.Differences = append(c.Differences, admin.Difference{Parameter: d.Name, Values: shown(&d, secret[d.Name])})
	}
	for i := range s.Members {
		m := &s.Members[i]
		one := admin.Member{
			ID: m.ID, Peers: m.Addr, Client: cluster.ClientAddr(m), Self: m.Self, Leader: m.Leader, Voter: m.Voter, Up: m.Up || m.Self, Lost: m.Lost,
			Lag: m.Lag, LagMS: m.LagTime.Milliseconds(), ClockGap: m.Skew.Milliseconds(), RTT: m.RTT.Microseconds(),
		}
		if !m.Seen.IsZero() {
			one.Seen = m.Seen.UnixMilli()
		}
		c.Members = append(c.Members, one)
	}
	var last time.Time
	for i := range v.node.Groups() {
		g := v.node.Group(i)
		c.Groups = append(c.Groups, groupOf(g, v.node.Groups()))
		if l := g.LeaderChange(); l.At.After(last) {
			last = l.At
			c.Handover = &admin.Handover{Group: i, At: l.At.UnixMilli(), From: l.From, To: l.To, Planned: l.Planned, Without: l.Without.Milliseconds()}
		}
	}
	return c
}

// groupOf describes a group, one of n.
func groupOf(g *cluster.Group, n int) admin.Group {
	s, slots := g.Status(), partition.RangeOf(g.ID(), n)
	out := admin.Group{Group: g.ID(), First: int(slots.First), Last: int(slots.Last), Role: g.Role().String(), Leader: s.LeaderID, Term: s.Term, Commit: s.CommitIndex}
	for i := range s.Members {
		if m := &s.Members[i]; m.Voter && !m.Self {
			out.Lag = max(out.Lag, m.Lag)
		}
	}
	return out
}

// troubles lists states of a node that need an operator.
func troubles(s *raftlog.Status) []string {
	list := []string{}
	if s.Removed {
		list = append(list, "this node is no longer part of the cluster, and shows the last state that it knew")
	}
	if s.ClockUnset {
		list = append(list, "no node knew how long the cluster was down, so the cluster clock continued from its last value: run headgate cluster set-clock")
	}
	if s.DiskFull {
		list = append(list, "the disk is full since "+s.DiskFullSince.UTC().Format(time.RFC3339)+": decisions are in memory only")
	}
	if s.Halted != "" {
		list = append(list, "this node has halted: "+s.Halted)
	}
	return list
}

// shown returns the values of a parameter by member. For a secret it says only which
// members have the same value.
func shown(d *cluster.Difference, secret bool) map[string]string {
	if !secret {
		return d.Values
	}
	values := make(map[string]string)
	names := make(map[string]string) // by digest
	for _, id := range slices.Sorted(maps.Keys(d.Values)) {
		digest := d.Values[id]
		if names[digest] == "" {
			names[digest] = "secret " + strconv.Itoa(len(names)+1)
		}
		values[id] = names[digest]
	}
	return values
}

// Durations implements admin.View. It covers the commands that have decided on a limit.
func (v *view) Durations() (all admin.Durations) {
	decides := make(map[string]bool)
	for _, d := range v.front.Decisions() {
		decides[d.Command] = true
	}
	for _, d := range v.front.Durations() {
		if decides[d.Command] {
			for i, n := range d.UpTo {
				all[i] += n
			}
		}
	}
	return all
}

// Counts implements admin.View.
func (v *view) Counts() []admin.LimitCount {
	counts := v.front.PolicyCounts()
	list := make([]admin.LimitCount, len(counts))
	for i := range counts {
		n := &counts[i]
		list[i] = admin.LimitCount{
			Policy: n.Policy, Limit: n.Limit, Allowed: n.Allowed, Denied: n.Denied, Penalty: n.Penalty,
			Shadow: n.Shadow, Soft: n.Soft, Missing: n.Missing, Near: n.Near, Cost: n.Cost,
		}
	}
	return list
}
