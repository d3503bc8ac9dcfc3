package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/events"
)

// eventsOf reads lines of JSON.
func eventsOf(t *testing.T, lines []any) (out []events.Event) {
	t.Helper()
	for _, line := range lines {
		var e events.Event
		require.NoError(t, json.Unmarshal([]byte(line.(string)), &e))
		out = append(out, e)
	}
	return out
}

// told returns the events of RL.EVENTS after an id, and the last id.
func told(t *testing.T, reply any) (out []events.Event, last int64) {
	t.Helper()
	require.EqualValues(t, 0, pair(t, reply, "lost"))
	return eventsOf(t, pair(t, reply, "events").([]any)), pair(t, reply, "last").(int64)
}

// RL.EVENTS shows calls and changes.
func TestEvents(t *testing.T) {
	r := newRig(t, engine.Config{})
	_, last := told(t, r.words("RL.EVENTS"))
	news := func() (out []events.Event) {
		t.Helper()
		out, last = told(t, r.words(fmt.Sprintf("RL.EVENTS SINCE %d", last)))
		for i := range out {
			require.Positive(t, out[i].At)
			out[i].ID, out[i].At, out[i].Author = 0, 0, strings.TrimPrefix(out[i].Author, "default")
			if out[i].Version > 0 {
				require.NotEmpty(t, out[i].Author)
			}
			out[i].Author = ""
		}
		return out
	}
	r.setPolicy("p", `{deny: [{user: mallory}], limits: {user: {by: user, rate: 1/h, penalty: {after: 3, within: 1h, block: 10m}},
		must: {by: kind, rate: 100/h, missing: deny}, trial: {rate: 1/h, mode: shadow}, soft: {rate: 1/h, mode: soft}}}`)
	require.Equal(t, []events.Event{{Type: events.Policy, Policy: "p", Version: 1}}, news())

	const eve = "p user eve kind a"
	r.words("RL.CHECK " + eve)
	require.Empty(t, news(), "calls that pass are no events")
	r.words("RL.CHECK " + eve + " PEEK")
	r.words("RL.CHECK " + eve + " COST 0 PEEK")
	require.Empty(t, news(), "nor is a look")
	user := events.Event{Type: events.Denied, Policy: "p", Limit: "user", Reason: "limit", Key: "@p:user;user=eve", Count: 1}
	r.words("RL.CHECK " + eve)
	require.Equal(t, []events.Event{user}, news())
	r.words("RL.CHECK " + eve)
	require.Empty(t, news(), "once a second")
	r.at(time.Second)
	penalty := user
	penalty.Reason = "penalty"
	r.words("RL.CHECK " + eve) // the third strike
	require.Equal(t, []events.Event{penalty, {Type: events.Penalty, Policy: "p", Limit: "user", Key: user.Key, For: 3_599_000}}, news())
	r.words("RL.CHECK p user bob kind a") // over what is in shadow, and soft
	require.Equal(t, []events.Event{{Type: events.Shadow, Policy: "p", Limit: "trial", Reason: "limit", Key: "@p:trial", Count: 1}}, news())
	r.words("RL.CHECK p user zoe")
	require.Equal(t, []events.Event{{Type: events.Denied, Policy: "p", Limit: "must", Reason: "missing", Count: 1}}, news())
	r.words("RL.CHECK p user mallory")
	require.Equal(t, []events.Event{{Type: events.Denied, Policy: "p", Reason: "deny", Count: 1}}, news())

	r.is("RL.OVERRIDE SET p LIMIT user RATE 5/h user eve", "OK")
	require.Equal(t, []events.Event{{Type: events.Override, Policy: "p", Change: "limit:user;user=eve"}}, news())
	r.is("RL.OVERRIDE DEL p LIMIT user user eve", "1")
	require.Equal(t, []events.Event{{Type: events.Override, Policy: "p", Change: "limit:user;user=eve", Deleted: true}}, news())
	r.is("RL.POLICY DEL p", "2")
	require.Equal(t, []events.Event{{Type: events.Policy, Policy: "p", Version: 2, Deleted: true}}, news())

	all, _ := told(t, r.words("RL.EVENTS"))
	require.Len(t, all, 10)
	some, next := told(t, r.words("RL.EVENTS COUNT 2"))
	require.Equal(t, all[8:], some)
	require.Equal(t, last, next)
	some, next = told(t, r.words("RL.EVENTS COUNT 1 SINCE 0"))
	require.Equal(t, all[:1], some)
	require.Equal(t, all[0].ID, next)
	for line, want := range map[string]string{
		"SINCE": "syntax error", "SINCE x": "SINCE must be the id of an event", "SINCE -1": "SINCE must be the id of an event", "COUNT 0": "COUNT must be at least 1", "WHAT 1": "syntax error",
	} {
		require.Equal(t, "-ERR "+want+"\r\n", r.raw(strings.Fields("RL.EVENTS "+line)...))
	}
}

// RL.EVENTS shows descriptors that deny, and those that would.
func TestEventsOfDescriptors(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("edge", `{descriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 2}}, {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}},
		{key: model, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}, {key: all, rate_limit: {unlimited: true}}]}`)
	_, last := told(t, r.words("RL.EVENTS"))
	ask := func(descriptors ...string) (out []events.Event) {
		t.Helper()
		args := []string{"RL.DESCRIPTORS", "edge", "0", strconv.Itoa(len(descriptors))}
		for _, d := range descriptors {
			words := append(strings.Fields(d), "-", "-")[:3] // the entry, its hits and its limit
			key, value, _ := strings.Cut(words[0], "=")
			args = append(args, "1", key, value, words[1], words[2])
		}
		r.raw(args...)
		out, last = told(t, r.words(fmt.Sprintf("RL.EVENTS SINCE %d", last)))
		for i := range out {
			require.Positive(t, out[i].At)
			out[i].ID, out[i].At = 0, 0
		}
		return out
	}
	for range 2 {
		require.Empty(t, ask("ip=a", "all=x", "other=x"), "calls that pass are no events")
	}
	ip := events.Event{Type: events.Denied, Policy: "edge", Limit: "ip", Reason: "limit", Key: "@edge:descriptors;3600s;ip=a", Count: 1}
	require.Equal(t, []events.Event{ip}, ask("ip=a", "all=x"))
	require.Empty(t, ask("ip=a"), "once a second")
	r.at(time.Second)
	ip.Count = 2
	require.Equal(t, []events.Event{ip}, ask("ip=a"))
	shadow := events.Event{Type: events.Shadow, Policy: "edge", Limit: "trial", Reason: "limit", Key: "@edge:descriptors;3600s;trial=x", Count: 1}
	require.Equal(t, []events.Event{shadow}, ask("trial=x 2"))
	asked := events.Event{Type: events.Denied, Policy: "edge", Limit: "(request)", Reason: "limit", Key: "@edge:descriptors;60s;what=x", Count: 1}
	require.Equal(t, []events.Event{asked}, ask("what=x 3 2/minute"))
	quota := events.Event{Type: events.Denied, Policy: "edge", Limit: "model", Reason: "limit", Key: "@edge:descriptors;3600s;model=a", Count: 1}
	require.Equal(t, []events.Event{quota}, ask("model=a 2"))
	quota.Type = events.Shadow
	require.Equal(t, []events.Event{quota}, ask("model=a", "model=b"), "another quota lets it pass")
	require.Empty(t, ask("ip=z 2"))
}

// While nobody listens, denials are not looked at.
func TestNobodyListens(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{limits: {a: {rate: 1/h}}}`)
	for range 3 {
		r.words("RL.CHECK p")
	}
	out, _ := told(t, r.words("RL.EVENTS"))
	require.Len(t, out, 1, "the policy alone")
	r.words("RL.CHECK p")
	out, _ = told(t, r.words("RL.EVENTS"))
	require.Len(t, out, 2)
	require.EqualValues(t, 1, out[1].Count, "those before are not counted")
}

// Subscribers get events, as messages or pushes. Nobody else can send any, and patterns only
// match channels of applications.
func TestEventsArePublished(t *testing.T) {
	s, addr := startServer(t, Config{})
	two, three, other, c := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	two.call("SUBSCRIBE __headgate__:events")
	three.call("HELLO 3")
	three.call("SUBSCRIBE __headgate__:events")
	other.call("PSUBSCRIBE *")
	require.EqualError(t, c.call("PUBLISH __headgate__:events x").(error), "ERR only the server publishes events")
	require.ErrorContains(t, c.call(`EVAL "return redis.call('publish', '__headgate__:events', 'x')" 0`).(error), "ERR only the server publishes events")
	eventually(t, "somebody to listen", s.events.Listening)
	c.send(encode("RL.POLICY", "SET", "p", "{limits: {a: {by: user, rate: 1/h}}}"))
	c.reply()
	for range 5 {
		c.call("RL.CHECK p user eve")
	}
	for _, client := range []*client{two, three} {
		var out []events.Event
		for count := uint64(0); count < 4; {
			message := client.reply().([]any)
			require.Equal(t, []any{"message", "__headgate__:events"}, message[:2])
			out = append(out, eventsOf(t, message[2:])...)
			count += out[len(out)-1].Count
		}
		require.Equal(t, events.Policy, out[0].Type)
		require.Equal(t, "@p:a;user=eve", out[1].Key)
	}
	c.call("PUBLISH x y")
	require.Equal(t, []any{"pmessage", "*", "x", "y"}, other.reply())
	two.Close()
	three.Close()
	eventually(t, "nobody to listen", func() bool { return !s.events.Listening() })
}

// Events show who leads, and what this node may do.
func TestEventsOfRoles(t *testing.T) {
	n, c := nodeOfThree(t, "n2", partition.Following)
	n.become(partition.Orphaned)
	roles := func() string {
		out, _ := told(t, c.call("RL.EVENTS"))
		text := ""
		for _, e := range out {
			text += e.Role + e.Leader + " "
		}
		return text
	}
	eventually(t, "the node to be orphaned", func() bool { return strings.HasSuffix(roles(), "orphaned ") })
	require.Contains(t, roles(), "10.0.0.1:7379 ")
}

// With several groups, an event shows whose role or leader has changed, also for group 0.
func TestEventsOfRolesNameTheGroup(t *testing.T) {
	n := startGroups(t, Config{}, partition.Leading, partition.Orphaned)
	told := func() (all []string) {
		for _, line := range dial(t, n.addr).call("RL.EVENTS").([]any)[5].([]any) {
			_, text, _ := strings.Cut(line.(string), `"type":`)
			all = append(all, text)
		}
		return all
	}
	eventually(t, "two roles", func() bool { return len(told()) == 2 })
	n.groups[1].set(func(f *fakeCluster) { f.role = partition.Following })
	eventually(t, "another role", func() bool { return len(told()) == 3 })
	n.parts[1].LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{ID: "n2", Address: partition.Address{Host: "h", Port: 2}})
	n.parts[0].LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{ID: "n1"})
	require.Equal(t, []string{
		`"role","group":0,"role":"leading"}`, `"role","group":1,"role":"orphaned"}`, `"role","group":1,"role":"following"}`,
		`"leader","group":1,"leader":"h:2"}`, `"leader","group":0}`,
	}, told())
}

// Secrets are in no event.
func TestEventsHaveNoSecrets(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.raw("RL.EVENTS")
	r.raw("RL.POLICY", "SET", "p", strings.Replace(ofSecrets, "10/h", "1/h", 1))
	for range 2 {
		r.raw("RL.CHECK", "p", "key", "hunter2")
	}
	r.raw("RL.OVERRIDE", "SET", "p", "LIMIT", "l", "RATE", "20/h", "key", "hunter2")
	all := r.raw("RL.EVENTS")
	require.Regexp(t, `"key":"@p:l;key=~[0-9a-f]{32}"`, all)
	require.Regexp(t, `"change":"limit:l;key=~[0-9a-f]{32}"`, all)
	require.NotContains(t, all, "hunter2")
}
