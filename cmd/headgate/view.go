package main

import (
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/engine"
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
		Commands: clients.Commands, Degraded: clients.Degraded, Errors: clients.ErrorReplies, Unknown: v.front.UnknownPolicies(),
		Clients: int64(clients.Clients), Keys: int64(keys.Keys), Memory: keys.Bytes, MemoryLimit: keys.MaxBytes,
		Holds: int64(v.engines[0].Reservations()), Offenders: int64(v.engines[0].Offenders()),
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
	s := v.node.Group(0).Status()
	c := &admin.Cluster{
		Node: s.NodeID, State: s.State, Leader: s.LeaderID, Term: s.Term, Commit: s.CommitIndex, Applied: s.AppliedIndex,
		Level: s.Level, Differ: []string{}, Members: []admin.Member{},
	}
	for _, d := range cluster.Differences(&s) {
		c.Differ = append(c.Differ, d.Name)
	}
	for i := range s.Members {
		m := &s.Members[i]
		c.Members = append(c.Members, admin.Member{
			ID: m.ID, Peers: m.Addr, Client: cluster.ClientAddr(m), Leader: m.Leader, Voter: m.Voter, Up: m.Up || m.Self,
			Lag: m.Lag, LagMS: m.LagTime.Milliseconds(),
		})
	}
	return c
}
