package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
)

// Live bounds the liveness of a scenario's runs, in each mode.
type Live struct {
	Async, Sync oracle.LivenessBounds
	Why         string // what is normal, and where it comes from
	// Groups are bounds that hold as well if there are several groups. A node that follows in group 0 then leads other
	// groups.
	Groups *Live
}

func (l *Live) of(mode string) oracle.LivenessBounds {
	if mode == Sync {
		return l.Sync
	}
	return l.Async
}

// within are bounds: shares of the calls, and times in seconds.
func within(refused, unknown, late, silence, gap float64) oracle.LivenessBounds {
	seconds := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	return oracle.LivenessBounds{Refused: refused, Unknown: unknown, Late: late, Silence: seconds(silence), Gap: seconds(gap)}
}

// LivenessTable describes the bounds in Markdown.
func LivenessTable() string {
	var b strings.Builder
	b.WriteString("| scenario | mode | refused | unknown | late | silence | gap | what is normal |\n|---|---|---|---|---|---|---|---|\n")
	for i := range All {
		s := &All[i]
		if s.Rate == 0 {
			continue // no calls are offered
		}
		for _, mode := range s.Modes {
			l := s.Live.of(mode)
			gap := ""
			if l.Gap > 0 {
				gap = fmt.Sprintf("%g s", l.Gap.Seconds())
			}
			fmt.Fprintf(&b, "| %s | %s | %.4g %% | %.4g %% | %.4g %% | %g s | %s | %s |\n", s.Name, mode,
				100*l.Refused, 100*l.Unknown, 100*l.Late, l.Silence.Seconds(), gap, s.Live.Why)
		}
	}
	return b.String()
}

// A machine is busy when other processes take more than busyForeign of the processors, or when the runner itself waits
// for more than busyStalled of the time. Then bounds of times are widened by busySlack, and bounds that follow from
// times.
const (
	busyForeign = 0.10
	busyStalled = 0.02
	busySlack   = 3
)

// busy reports whether the machine did too much else for its times to be judged strictly.
func (r *Run) busy() bool {
	return r.machine.Foreign() > busyForeign || r.machine.Stalled() > busyStalled
}

// busyNote says what a busy machine changes.
func (r *Run) busyNote() string {
	if !r.busy() {
		return ""
	}
	return fmt.Sprintf(": bounds of time and of what follows from it are %d times as wide, and the goal of availability is not judged", busySlack)
}

// slowSlack is how much longer elections take with the raft profile for slow machines.
const slowSlack = 2

// profileSlack is slowSlack with that profile, and otherwise 1.
func (r *Run) profileSlack() float64 {
	if args := strings.Join(r.Args, " "); strings.Contains(args, "raft-profile slow") || strings.Contains(args, "raft-profile=slow") {
		return slowSlack
	}
	return 1
}

// slack is what bounds of time are multiplied by.
func (r *Run) slack() float64 {
	slack := r.profileSlack()
	if r.busy() {
		slack *= busySlack
	}
	return slack
}

// needless is what an election costs that a busy machine has caused: the time until there is a leader again.
const needless = 2 * time.Second

// liveness is what the run may cost: what the scenario states, and elections for which a busy machine had no time. With
// several groups, a call waits behind the calls of its connection that belong to a lost group. One group would have
// refused all of them.
func (r *Run) liveness() oracle.LivenessBounds {
	b := r.Scenario.Live.of(r.Mode)
	if r.cluster != nil && r.cluster.Groups > 1 {
		if wider := r.Scenario.Live.Groups; wider != nil {
			b = b.AtLeast(wider.of(r.Mode))
		}
		b.Late += b.Refused
	}
	if r.busy() && r.unforeseen > 0 {
		b.Refused += (time.Duration(r.unforeseen) * needless).Seconds() / max(r.history.Length.Seconds(), 1)
		b.Unknown += b.Refused / 10
		b.Silence = max(b.Silence, needless)
	}
	return b
}

// stalled is the share of calls that a busy machine may have made late. A call passes four processes, and each of them
// waits as long as the runner does.
func (r *Run) stalled() float64 {
	if r.busy() {
		return 4 * r.machine.Stalled()
	}
	return 0
}

// pids are the processes of the run's nodes and clients.
func (r *Run) pids() (pids []int) {
	if r.cluster == nil {
		return nil
	}
	for _, n := range r.cluster.Nodes {
		if pid := n.PID(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	if r.leases != nil {
		for _, p := range r.leases.all {
			pids = append(pids, p.PID())
		}
	}
	return pids
}

// measureGaps finds, for each harm, how long it took until the cluster decided a call that was sent after it. Pauses of
// the load do not count.
func (r *Run) measureGaps() {
	var dues []int64
	for i := range r.history.Calls {
		if c := &r.history.Calls[i]; !r.history.Apart(c) {
			dues = append(dues, c.Due)
		}
	}
	slices.Sort(dues)
	for i, at := range r.harms {
		until := int64(history.Forever)
		if i+1 < len(r.harms) {
			until = r.harms[i+1]
		}
		first := int64(history.Forever)
		for j := range r.history.Calls {
			c := &r.history.Calls[j]
			if c.Start >= at && c.Start < until && c.End < first && !c.Local && !r.history.Apart(c) && c.Decided() {
				first = c.End
			}
		}
		if first != history.Forever {
			r.gaps = append(r.gaps, oracle.Silence(dues, at, first))
		}
	}
}
