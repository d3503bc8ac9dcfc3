package scenario

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// readPolicies looks at what is left of the policies in the end. Each node leads in turn, and says what it has: all say the
// same.
func (r *Run) readPolicies() error {
	for i := range policyKinds {
		name, until := policyKinds[i].Name, time.Now().Add(failover)
		for !r.checks.editor.Read(name) {
			if time.Now().After(until) {
				return fmt.Errorf("policy %s cannot be read", name)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if r.cluster == nil {
		return nil
	}
	first, same := "", 0
	for _, n := range r.cluster.Members() {
		if err := r.leadAfterwards(n); err != nil {
			return err
		}
		said, err := r.policiesOf(n)
		if err != nil {
			return err
		}
		if first == "" {
			first = said
		}
		for i, line := range strings.Split(said, "\n") {
			if was := strings.Split(first, "\n"); i >= len(was) || line != was[i] {
				r.expect(false, "policies", "%s says another thing of them than the first node:\n%s\n%s", n.Name, line, strings.Join(was[min(i, len(was)):min(i+1, len(was))], ""))
				return nil
			}
		}
		same++
	}
	r.expect(true, "policies", "%d nodes say the same of them, each as the leader", same)
	return nil
}

// leadAfterwards makes a node the leader when nothing is offered any longer.
func (r *Run) leadAfterwards(n *cluster.Node) error {
	l, err := r.leader()
	if err != nil || l == n {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), failover)
	defer cancel()
	at := r.now()
	defer func() { r.planned = append(r.planned, oracle.Loss{From: at, To: r.now()}) }()
	if err := r.handOver(ctx, n); err != nil {
		return err
	}
	return r.awaitRole(n, "leading")
}

// policiesOf is what the leader says of the policies: their versions and texts, overrides, and what a check goes by.
func (r *Run) policiesOf(n *cluster.Node) (string, error) {
	var b strings.Builder
	ask := func(args ...string) (resp.Reply, error) {
		reply, err := r.do(n, args...)
		if err != nil {
			return reply, err
		}
		fmt.Fprintf(&b, "%v: %s\n", args, flat(&reply))
		return reply, nil
	}
	if _, err := ask("RL.POLICY", "LIST"); err != nil {
		return "", err
	}
	kept := r.history.Kept == nil
	for i := range policyKinds {
		p := &policyKinds[i]
		reply, err := ask("RL.POLICY", "HISTORY", p.Name)
		if err != nil {
			return "", err
		}
		for _, of := range reply.Elems {
			version := pair(&of, "version").Int
			reply, err := ask("RL.POLICY", "GET", p.Name, "VERSION", strconv.FormatInt(version, 10))
			if err != nil {
				return "", err
			}
			if kept {
				r.history.Kept = append(r.history.Kept, history.Sight{At: r.now(), Policy: p.Name, Version: uint64(version), Text: pair(&reply, "text").Str})
			}
		}
		if reply, err = r.do(n, "RL.OVERRIDE", "LIST", p.Name, "COUNT", "100000"); err != nil {
			return "", err
		}
		var overrides []string
		for _, o := range reply.Elems {
			overrides = append(overrides, fmt.Sprintf("%s %s %s until %s", flat(pair(&o, "attributes")), pair(&o, "limit").Str, pair(&o, "rate").Str, pair(&o, "until").Str))
		}
		slices.Sort(overrides)
		fmt.Fprintf(&b, "overrides of %s: %v\n", p.Name, overrides)
		// By the set that checks use: its version, and what it has room for.
		reply, err = r.do(n, "RL.CHECK", p.Name, "user", "nobody", "team", "none", "COST", "0")
		if err != nil {
			return "", err
		}
		if len(reply.Elems) < 12 {
			return "", fmt.Errorf("a check on %s: %s", n.Name, flat(&reply))
		}
		fmt.Fprintf(&b, "checks of %s go by version %d:", p.Name, reply.Elems[9].Int)
		for _, l := range reply.Elems[11].Elems {
			fmt.Fprintf(&b, " %s %d", flat(&l.Elems[0]), l.Elems[2].Int)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// pair is the value of a name in a flat array of pairs; an empty reply if there is none.
func pair(r *resp.Reply, name string) *resp.Reply {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if r.Elems[i].Str == name {
			return &r.Elems[i+1]
		}
	}
	return &resp.Reply{}
}

// flat is a reply in one line.
func flat(r *resp.Reply) string {
	if len(r.Elems) == 0 {
		if r.Type == ':' {
			return strconv.FormatInt(r.Int, 10)
		}
		return r.Str
	}
	var parts []string
	for i := range r.Elems {
		parts = append(parts, flat(&r.Elems[i]))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// maxExplained bounds the questions of one write.
const maxExplained = 100

// readCounters reads what the static counters of policies hold; addr is the leader's.
func (r *Run) readCounters(addr string) error {
	var ids []oracle.Counter
	var names []string
	asked := make(map[string]bool)
	for i := range r.history.Calls {
		c := &r.history.Calls[i]
		if c.Kind != history.Check {
			continue
		}
		who := r.history.Keys[c.Key].Caller
		p := &policyKinds[slices.IndexFunc(policyKinds, func(p history.Policy) bool { return p.Name == who.Policy })]
		for j, l := range p.Limits {
			if name := load.CounterKey(p, l, who); l.By != "" && !asked[name] {
				asked[name] = true
				names, ids = append(names, name), append(ids, oracle.Counter{Policy: p.Name, Limit: j, Value: who.Of(l.By)})
			}
		}
	}
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	r.counted = make(map[oracle.Counter]int64)
	for len(names) > 0 {
		n := min(len(names), maxExplained)
		var out []byte
		for _, name := range names[:n] {
			out = respclient.Append(out, "RL.EXPLAIN", name)
		}
		if err := nc.SetDeadline(time.Now().Add(failover)); err != nil {
			return err
		}
		if _, err := nc.Write(out); err != nil {
			return err
		}
		for i := range n {
			reply, err := respclient.Read(in)
			if err != nil {
				return err
			}
			if text := reply.Error(); text != "" {
				return fmt.Errorf("what %s holds: %s", names[i], text)
			}
			r.counted[ids[i]] = pair(&reply, "used").Int // nothing, if it is not there
		}
		names, ids = names[n:], ids[n:]
	}
	return nil
}
