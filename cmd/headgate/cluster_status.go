package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

func (f *clusterFlags) status(ctx context.Context, c *cluster.Client, out io.Writer, _ []string) error {
	s, err := c.Status(ctx, f.peer)
	if err != nil {
		return err
	}
	groups := []raftlog.Status{s}
	for g := 1; g < s.Groups; g++ {
		s, err := c.Of(g).Status(ctx, f.peer)
		if err != nil && !errors.Is(err, peer.ErrNotServed) {
			return err
		}
		s.GroupID = uint32(g)
		groups = append(groups, s)
	}
	if f.json {
		return printJSON(out, struct {
			raftlog.Status
			Others []raftlog.Status `json:"other_groups,omitempty"`
		}{s, groups[1:]})
	}
	if err := printStatus(out, &s); err != nil || len(groups) == 1 {
		return err
	}
	return printGroups(out, groups)
}

// printGroups writes a table of the groups. The column LAG shows the slowest voter, as far
// as the asked node knows.
func printGroups(out io.Writer, groups []raftlog.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nGROUP\tSLOTS\tLEADER\tTERM\tCOMMITTED\tLAG\tMEMBERS")
	for i := range groups {
		s, slots := &groups[i], partition.RangeOf(i, len(groups))
		if s.NodeID == "" {
			fmt.Fprintf(w, "%d\t%d-%d\tnot opened yet\n", i, slots.First, slots.Last)
			continue
		}
		lag := uint64(0)
		for _, m := range s.Members {
			if m.Voter && !m.Self {
				lag = max(lag, m.Lag)
			}
		}
		fmt.Fprintf(w, "%d\t%d-%d\t%s\t%d\t%d\t%d\t%d\n", i, slots.First, slots.Last, dash(s.LeaderID), s.Term, s.CommitIndex, lag, len(s.Members))
	}
	return w.Flush()
}

// printStatus writes a line about the node that was asked, and a table of all nodes.
func printStatus(out io.Writer, s *raftlog.Status) error {
	leader := "none"
	if s.LeaderID != "" {
		leader = s.LeaderID
	}
	fmt.Fprintf(out, "leader %s, term %d, %d nodes, as seen by %s (%s)\n", leader, s.Term, len(s.Members), s.NodeID, s.State)
	fmt.Fprintf(out, "log: committed %d of %d entries, snapshot at %d%s; last write %v\n", s.CommitIndex, s.LastIndex, s.SnapshotIndex, age(s.SnapshotTime), s.WriteLast)
	fmt.Fprintln(out, featureLevel(s))
	for _, d := range cluster.Differences(s) {
		fmt.Fprintf(out, "CONFIGURED DIFFERENTLY: %v\n", d)
	}
	if s.Serving {
		fmt.Fprintf(out, "oldest effect not committed: %v\n", s.Progress.Unacked.Round(time.Microsecond))
	}
	if s.Removed {
		fmt.Fprintf(out, "REMOVED: %s is no longer part of the cluster; below is the last state that it knew\n", s.NodeID)
	}
	if s.ClockUnset {
		fmt.Fprintf(out, "CLOCK: no node knew how long the cluster was down, so the cluster clock continued from its last value; check the leader's wall clock, then run headgate cluster set-clock\n")
	}
	if s.DiskFull {
		fmt.Fprintf(out, "DISK FULL since %s: %s keeps its decisions in memory only; make room before it stops\n", s.DiskFullSince.UTC().Format(time.RFC3339), s.NodeID)
	}
	if s.Halted != "" {
		fmt.Fprintf(out, "HALTED: %s\n", s.Halted)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nNODE\tPEERS\tCLIENTS\tROLE\tSTATE\tLEVELS\tLAG\tLAG TIME\tCLOCK\tRTT")
	for _, m := range s.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Addr, dash(cluster.ClientAddr(&m)), role(&m), state(&m), dash(levels(m.Supports)), measures(&m))
	}
	return w.Flush()
}

// featureLevel says which formats the nodes may write, and why they may not write newer
// ones.
func featureLevel(s *raftlog.Status) string {
	if len(s.HeldBack) == 0 {
		return fmt.Sprintf("feature level %d", s.Level)
	}
	return fmt.Sprintf("feature level %d; level %d is held back: %s", s.Level, s.NewestLevel, heldBack(s))
}

// heldBack names the members because of which the feature level cannot rise, with the
// reason for each. It returns "" if there are none.
func heldBack(s *raftlog.Status) string {
	var why []string
	for _, h := range s.HeldBack {
		why = append(why, h.String())
	}
	return strings.Join(why, "; ")
}

// levels returns the feature levels that a node supports; "" until the node has answered.
func levels(supports uint32) string {
	if supports == 0 {
		return ""
	}
	return fmt.Sprintf("1-%d", supports)
}

func role(m *raftlog.Member) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Voter:
		return "voter"
	}
	return "nonvoter"
}

func state(m *raftlog.Member) string {
	switch {
	case m.Lost:
		return "up, without the data it had"
	case m.Up:
		return "up"
	case m.Seen.IsZero():
		return "down"
	}
	return "down" + age(m.Seen)
}

// measures returns the table's columns that are known only for a node that answers.
func measures(m *raftlog.Member) string {
	if m.Self || !m.Up {
		return "-\t-\t-\t-"
	}
	return fmt.Sprintf("%d\t%v\t%+v\t%v", m.Lag, m.LagTime.Round(time.Millisecond), m.Skew.Round(time.Millisecond), m.RTT.Round(time.Microsecond))
}

// age returns the time since t, after a space; "" for the zero time.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" %v ago", time.Since(t).Round(time.Second))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
