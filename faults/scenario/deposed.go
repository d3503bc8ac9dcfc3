package scenario

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// disputed are keys that a leader without followers changes in vain. Each has a limit of 100.
var disputed = []struct {
	name   string
	before int64 // consumed, and committed
	claims []claim
}{
	{"charged", 60, []claim{{cost: 40}}},
	{"refunded", 100, []claim{{cost: -30}, {cost: 30}}},
	{"returned", 100, []claim{{cost: -100}}},
	{"reset", 100, []claim{{reset: true}, {cost: 100}}},
	{"raised", 60, []claim{{cost: 140, limit: 200}}},
}

const disputedLimit = 100

// disputedData are keys with values of Redis's types that a leader without followers changes in vain; KEY stands for the key.
// Nobody else changes them: what the claims have done must be undone, nothing takes its place.
var disputedData = []struct {
	name           string
	before, claims []string // commands
	read           string
}{
	{"counter", []string{"SET KEY 60"}, []string{"INCRBY KEY 40", "EXPIRE KEY 1"}, "GET KEY"},
	{"string", []string{"SET KEY before"}, []string{"APPEND KEY -and-after"}, "GET KEY"},
	{"hash", []string{"HSET KEY a 1 b 2"}, []string{"HINCRBY KEY a 40", "HDEL KEY b", "HSET KEY c 3"}, "HGETALL KEY"},
	{"sorted-set", []string{"ZADD KEY 1 a 2 b"}, []string{"ZADD KEY 3 c", "ZREM KEY a", "ZINCRBY KEY 9 b"}, "ZRANGE KEY 0 -1 WITHSCORES"},
	{"list", []string{"RPUSH KEY a b"}, []string{"RPUSH KEY c", "LPOP KEY"}, "LRANGE KEY 0 -1"},
	{"set", []string{"SADD KEY a"}, []string{"SADD KEY b", "SREM KEY a"}, "SMEMBERS KEY"},
	{"made", nil, []string{"HSET KEY a 1"}, "HGETALL KEY"},
	{"deleted", []string{"RPUSH KEY a"}, []string{"DEL KEY"}, "LRANGE KEY 0 -1"},
	{"renamed", []string{"SADD KEY a"}, []string{"RENAME KEY KEY:too"}, "SMEMBERS KEY"},
	{"overwritten", []string{"HSET KEY a 1"}, []string{"SET KEY 1"}, "HGETALL KEY"},
	{"script", []string{"SET KEY 60"}, []string{windowOf40}, "GET KEY"},
}

// windowOf40 is a call of the window script.
var windowOf40 = strings.Join(load.Arguments(&history.Call{Cost: 40, Limit: disputedLimit},
	history.Key{Name: "KEY", Command: "EVALSHA window", Period: never}, history.Key{}), " ")

// about is a command about a key.
func about(key, template string) []string {
	return strings.Fields(strings.ReplaceAll(template, "KEY", key))
}

// claim is a call that never commits.
type claim struct {
	cost  int64
	limit int64 // not 0 if it differs from the limit of other calls
	reset bool
}

// deposed cuts the leader off and lets it decide while it still does: charges, refunds, resets, another limit, and
// changes of values of Redis's types. None of these commits. The next leader must know nothing of them, and the old one
// must have forgotten them when it leads again.
func deposed(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := free(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, everything(keys))
	if err != nil {
		return err
	}
	acknowledged := 0
	err = r.rounds(func() error {
		n, err := r.depose()
		acknowledged += n
		return err
	})
	err = r.finish(l, keys, err)
	if r.Mode == Async {
		// Otherwise there was nothing to take back.
		r.expect(acknowledged > 0, "deposed", "leaders without followers answered %d calls before they stopped", acknowledged)
	} else {
		r.expect(acknowledged == 0, "deposed", "leaders without followers answered %d calls", acknowledged)
	}
	return err
}

// depose does one round. It returns how many calls the leader without followers answered.
func (r *Run) depose() (acknowledged int, err error) {
	old, err := r.leader()
	if err != nil {
		return 0, err
	}
	// The tag has slot 0, and so r.leader leads these keys with any number of groups.
	prefix := "disputed{3560}" + strconv.FormatInt(r.now(), 10) + ":"
	for _, k := range disputedData {
		for _, command := range k.before {
			if _, err := r.once(old, about(prefix+k.name, command)...); err != nil {
				return 0, err
			}
		}
	}
	for _, k := range disputed { // which are committed with all that was before
		if _, err := r.once(old, append(disputedCommand(prefix+k.name, disputedLimit, k.before), "SYNC")...); err != nil {
			return 0, err
		}
	}
	committed, err := r.readDisputed(old, prefix)
	if err != nil {
		return 0, err
	}
	at := r.now()
	r.cluster.Isolate(old, linkfault.Hold)
	r.note("%s, the leader, is cut off", old.Name)
	r.harmed(at)
	r.lose(at-int64(maxUnacked), at+int64(maxUnacked))
	if acknowledged, err = claimAll(old.Addr, claims(prefix)); err != nil {
		return 0, err
	}
	r.note("it has answered %d calls that cannot commit", acknowledged)
	next, err := r.leader(old)
	if err != nil {
		return 0, err
	}
	r.note("%s leads", next.Name)
	for _, k := range disputed {
		if err := r.spendRest(next, prefix+k.name, k.before); err != nil {
			return 0, err
		}
	}
	if err := r.compareDisputed("next", "the next leader", next, prefix, committed); err != nil {
		return 0, err
	}
	r.cluster.Heal()
	r.note("the links work")
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return 0, err
	}
	if _, err := r.lead(old); err != nil {
		return 0, err
	}
	for _, k := range disputed {
		used, err := r.used(old, prefix+k.name)
		if err != nil {
			return 0, err
		}
		r.unlessEqual("again", used, disputedLimit, "%s, which leads again, has %d of %q consumed", old.Name, used, k.name)
	}
	return acknowledged, r.compareDisputed("again", "which leads again", old, prefix, committed)
}

// readDisputed reads disputedData.
func (r *Run) readDisputed(n *cluster.Node, prefix string) (values []string, err error) {
	for _, k := range disputedData {
		reply, err := r.do(n, about(prefix+k.name, k.read)...)
		if err != nil {
			return nil, err
		}
		values = append(values, valueText(&reply))
	}
	return values, nil
}

// compareDisputed checks that a leader has of disputedData what was committed.
func (r *Run) compareDisputed(check, who string, n *cluster.Node, prefix string, committed []string) error {
	values, err := r.readDisputed(n, prefix)
	if err != nil {
		return err
	}
	for i, v := range values {
		if v != committed[i] {
			r.expect(false, check, "%s, %s, has %q in %q, %q was committed", n.Name, who, v, prefix+disputedData[i].name, committed[i])
		}
	}
	return nil
}

// valueText is a value as a reply tells it: a text, or several.
func valueText(reply *resp.Reply) string {
	if len(reply.Elems) == 0 {
		return reply.Str
	}
	var texts []string
	for i := range reply.Elems {
		texts = append(texts, valueText(&reply.Elems[i]))
	}
	return strings.Join(texts, " ")
}

// spendRest checks that a leader knows what was committed of a key, and no more, and consumes what is left: one unit more
// is denied.
func (r *Run) spendRest(n *cluster.Node, key string, before int64) error {
	used, err := r.used(n, key)
	if err != nil {
		return err
	}
	r.unlessEqual("next", used, before, "%s, the next leader, has %d of %q consumed, %d were committed", n.Name, used, key, before)
	if left := disputedLimit - before; left > 0 {
		if _, err := r.once(n, append(disputedCommand(key, disputedLimit, left), "SYNC")...); err != nil {
			return err
		}
	}
	reply, err := r.once(n, append(disputedCommand(key, disputedLimit, 1), "SYNC")...)
	if err != nil {
		return err
	}
	r.unlessEqual("next", reply.Elems[0].Int, 0, "%s, the next leader, admitted %d more of %q", n.Name, reply.Elems[0].Int, key)
	return nil
}

// unlessEqual adds a finding if a figure is not what it must be.
func (r *Run) unlessEqual(check string, got, want int64, format string, args ...any) {
	if got != want {
		r.expect(false, check, format, args...)
	}
}

func disputedCommand(key string, limit, cost int64) []string {
	return []string{"RL.LIMIT", key, strconv.FormatInt(limit, 10), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", strconv.FormatInt(cost, 10)}
}

// claims are the commands of all claims.
func claims(prefix string) (commands [][]string) {
	for _, k := range disputed {
		for _, m := range k.claims {
			if m.reset {
				commands = append(commands, []string{"RL.RESET", prefix + k.name})
				continue
			}
			commands = append(commands, disputedCommand(prefix+k.name, cmp.Or(m.limit, disputedLimit), m.cost))
		}
	}
	for _, k := range disputedData {
		for _, command := range k.claims {
			commands = append(commands, about(prefix+k.name, command))
		}
	}
	return commands
}

// claimAll sends commands at once and counts those that are answered as if they had been decided.
func claimAll(addr string, commands [][]string) (acknowledged int, err error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var out []byte
	for _, args := range commands {
		out = respclient.Append(out, args...)
	}
	if _, err := c.Write(out); err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	in := bufio.NewReader(c)
	for range commands {
		reply, err := respclient.Read(in)
		if err != nil {
			return acknowledged, nil // it was killed, or is too slow
		}
		if reply.Error() == "" {
			acknowledged++
		}
	}
	return acknowledged, nil
}
