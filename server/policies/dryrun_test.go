package policies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// surveyLine is what DRYRUN says of the counters of a limit, "" if nothing.
func surveyLine(r *rig.Rig, limit string, args ...string) string {
	r.T.Helper()
	reply := r.Parse(r.Raw(append([]string{"RL.POLICY", "SET", "p"}, args...)...))
	lines, ok := reply.([]any)
	require.True(r.T, ok, "%v", reply)
	for _, l := range lines {
		if rest, ok := strings.CutPrefix(l.(string), "p: limits."+limit+": live counters: "); ok {
			return rest
		}
	}
	return ""
}

// DRYRUN counts as over the callers who are denied once the change is made, with every
// algorithm and every CHANGE.
func TestDryRunCountsWhoWouldBeDenied(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
		for _, change := range []string{"KEEP", "PROPORTIONAL", "RESET"} {
			t.Run(algorithm+" "+change, func(t *testing.T) {
				r := rig.New(t, engine.Config{})
				text := func(rate string) string {
					return fmt.Sprintf("{limits: {a: {by: user, algorithm: %s, rate: %s}, all: {rate: 1_000_000/h, cost: 2}}}", algorithm, rate)
				}
				r.Raw("RL.POLICY", "SET", "p", text("20/m"))
				const users = 200
				for u := range users {
					for range rnd.IntN(3) {
						r.At(time.Duration(u) * 10 * time.Millisecond)
						r.Words(fmt.Sprintf("RL.CHECK p user u%d COST %d", u, 1+rnd.IntN(10)))
					}
				}
				top := rig.Format(r.Words("RL.TOP HOT COUNT 100"))
				said := surveyLine(r, "a", "CHANGE", change, "DRYRUN", text("5/m"))
				require.Equal(t, top, rig.Format(r.Words("RL.TOP HOT COUNT 100")))
				require.Equal(t, said, surveyLine(r, "a", "CHANGE", change, "DRYRUN", text("5/m")), "it changes nothing")
				r.Raw("RL.POLICY", "SET", "p", "CHANGE", change, text("5/m"))
				live, over := 0, 0
				for u := range users {
					if r.Words(fmt.Sprintf("EXISTS @p:a;user=u%d", u)) == int64(1) {
						live++
					}
					if rig.Pair(t, r.Words(fmt.Sprintf("RL.EXPLAIN POLICY p user u%d", u)), "allowed") == int64(0) {
						over++
					}
				}
				if change == "RESET" { // voided by now
					require.Zero(t, over)
					require.Regexp(t, `^\d+, over: 0$`, said)
					return
				}
				require.Greater(t, over, 0)
				require.Equal(t, fmt.Sprintf("%d, over: %d", live, over), said)
			})
		}
	}
}

// If a key does not show the numbers, they are those it was charged under last, or are left
// open.
func TestDryRunKnowsWhatKeysTell(t *testing.T) {
	r := rig.New(t, engine.Config{})
	say := func(args ...string) { r.Parse(r.Raw(args...)) }
	check := func(args ...string) {
		t.Helper()
		reply := r.Parse(r.Raw(append([]string{"RL.CHECK", "p"}, args...)...))
		require.Equal(t, int64(1), reply.([]any)[0], "%v", args)
	}
	tiers := func(free, pro string) string {
		return "{limits: {a: {by: user, tiers: {attribute: plan, free: " + free + ", pro: " + pro + ", default: 100/h}}}}"
	}
	say("RL.POLICY", "SET", "p", tiers("10/h", "50/h"))
	check("user", "f1", "plan", "free", "COST", "8")
	check("user", "f2", "plan", "free", "COST", "2")
	check("user", "p1", "plan", "pro", "COST", "8")
	check("user", "d1", "COST", "8")
	require.Equal(t, "4, over: 1", surveyLine(r, "a", "DRYRUN", tiers("5/h", "50/h")))
	require.Equal(t, "4, over: 1", surveyLine(r, "a", "DRYRUN", tiers("50/h", "5/h")))
	require.Equal(t, "4, over: 2", surveyLine(r, "a", "DRYRUN", tiers("5/h", "blocked")))
	// Two tiers with the same numbers look alike.
	say("RL.POLICY", "SET", "p", tiers("50/h", "50/h"))
	check("user", "f1", "plan", "free")
	check("user", "p1", "plan", "pro")
	check("user", "f2", "plan", "free")
	require.Equal(t, "4, over: 0, perhaps over: 2", surveyLine(r, "a", "DRYRUN", tiers("5/h", "50/h")))
	require.Equal(t, "4, over: 2", surveyLine(r, "a", "DRYRUN", tiers("5/h", "6/h")))

	// The key shows an override of exactly the caller, or of a tier. It also shows an entry of
	// the text that depends on attributes in the key.
	say("RL.OVERRIDE", "SET", "p", "LIMIT", "a", "RATE", "1000/h", "user", "f1")
	require.Equal(t, "4, over: 1", surveyLine(r, "a", "DRYRUN", tiers("5/h", "6/h")))
	say("RL.OVERRIDE", "SET", "p", "TIER", "free", "user", "p1")
	require.Equal(t, "4, over: 0", surveyLine(r, "a", "DRYRUN", tiers("500/h", "6/h")))
	with := func(when string) string {
		return "{limits: {a: {by: user, rate: 100/h}}, overrides: [{when: " + when + ", limits: {a: 1/h}}]}"
	}
	require.Equal(t, "4, over: 1", surveyLine(r, "a", "DRYRUN", with("{user: [f2, x]}")))
	require.Equal(t, "4, over: 0, perhaps over: 3", surveyLine(r, "a", "DRYRUN", with("{region: eu}")))
	require.Equal(t, "4, over: 0, perhaps over: 1", surveyLine(r, "a", "DRYRUN", with("{user: p1, region: eu}")))
	say("RL.OVERRIDE", "SET", "p", "SCALE", "2%")
	require.Equal(t, "4, over: 3", surveyLine(r, "a", "DRYRUN", "{limits: {a: {by: user, rate: 100/h}}}"), "one has 2%% of 1000")

	// Limits that do not deny, that have other keys, or are new.
	require.Equal(t, "4, over: 0", surveyLine(r, "a", "DRYRUN", "{limits: {a: {by: user, rate: unlimited}}}"))
	require.Equal(t, "4, over: 3", surveyLine(r, "a", "DRYRUN", "{limits: {a: {by: user, rate: blocked, mode: shadow}}}"))
	require.Empty(t, surveyLine(r, "a", "DRYRUN", "{limits: {a: {by: [user, plan], rate: 1/h}}}"))
	require.Empty(t, surveyLine(r, "a", "DRYRUN", "{limits: {a: {by: region, rate: 1/h}}}"))
	require.Empty(t, surveyLine(r, "b", "DRYRUN", "{limits: {b: {by: user, rate: 1/h}}}"))
	say("RL.POLICY", "SET", "q", "{limits: {a: {by: user, rate: 1/h}}, require: user}")
	require.Equal(t, []any{"q: limits.a.rate: 1/h -> 2/h (numbers)"},
		r.Parse(r.Raw("RL.POLICY", "SET", "q", "DRYRUN", "{limits: {a: {by: user, rate: 2/h}}, require: user}")))

	// A rollback is tried as well; in a transaction nothing is walked.
	require.Contains(t, rig.Format(r.Words("RL.POLICY ROLLBACK p 1 DRYRUN")), "p: limits.a: live counters: 4, over: ")
	r.Words("MULTI")
	r.Raw("RL.POLICY", "ROLLBACK", "p", "1", "DRYRUN")
	require.NotContains(t, rig.Format(r.Words("EXEC")), "live counters")
}

// Networks, secrets and values that are too long for a key.
func TestDryRunReadsKeys(t *testing.T) {
	r := rig.New(t, engine.Config{})
	text := func(rate, v4 string) string {
		return "{attributes: {token: {type: secret}}, limits: {a: {by: [{ip: {v4: " + v4 + "}}, token, name], rate: " + rate + "}}}"
	}
	reply := r.Parse(r.Raw("RL.POLICY", "SET", "p", text("10/h", "24")))
	require.Equal(t, int64(1), reply, "%v", reply)
	for _, ip := range []string{"192.0.2.7", "2001:db8::7"} {
		for _, name := range []string{"eve", strings.Repeat("x", 300), "a;b=c"} {
			require.Equal(t, int64(1), r.Parse(r.Raw("RL.CHECK", "p", "ip", ip, "token", "hunter2", "name", name, "COST", "5")).([]any)[0])
		}
	}
	require.Equal(t, "6, over: 6", surveyLine(r, "a", "DRYRUN", text("5/h", "24")))
	require.Equal(t, "6, over: 0", surveyLine(r, "a", "DRYRUN", text("6/h", "24")))
	require.Equal(t, "3, over: 3", surveyLine(r, "a", "DRYRUN", text("5/h", "16")), "the others are of another network")
}

// DRYRUN of descriptors counts the callers whom one more hit would deny, rule by rule.
func TestDryRunOfDescriptors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const was = `{descriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 10}}, {key: "a=b;c", rate_limit: {unit: hour, requests_per_unit: 10}},
		{key: path, value: "/x/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}, {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}]}`
	r.SetPolicy("p", was)
	for i := range 5 {
		for range 2 * i {
			r.Raw("RL.DESCRIPTORS", "p", "0", "1", "1", "ip", fmt.Sprintf("192.0.2.%d", i), "-", "-")
		}
	}
	r.Raw("RL.DESCRIPTORS", "p", "7", "3", "1", "path", "/x/1", "-", "-", "1", "path", "/x/2", "-", "-", "1", "user", "eve %;=\x00", "-", "-")
	r.Raw("RL.DESCRIPTORS", "p", "9", "2", "1", "a=b;c", "x", "-", "-", "1", "user", strings.Repeat("u", 300), "-", "-")
	r.Raw("RL.DESCRIPTORS", "p", "9", "1", "1", "ip", "192.0.2.1", "-", "3/minute")
	survey := func(args ...string) (lines []string) {
		t.Helper()
		for _, l := range r.Parse(r.Raw(append([]string{"RL.POLICY", "SET", "p"}, args...)...)).([]any) {
			if strings.Contains(l.(string), "live counters") {
				lines = append(lines, l.(string))
			}
		}
		return lines
	}
	edited := strings.ReplaceAll(was, "requests_per_unit: 10", "requests_per_unit: 6")
	want := []string{"p: descriptors.ip: live counters: 4, over: 2", "p: descriptors.path_/x/*: live counters: 1, over: 1", "p: descriptors.user: live counters: 1, over: 1"}
	require.Equal(t, want, survey("DRYRUN", edited))
	require.Equal(t, want, survey("DRYRUN", edited), "it changes nothing")
	require.Equal(t, []string{"p: descriptors.ip: live counters: 4, over: 0"}, survey("CHANGE", "RESET", "DRYRUN", edited)[:1])
	require.Equal(t, want[1:], survey("DRYRUN", strings.Replace(edited, "{unit: hour", "{unit: day", 1)), "of another window no request asks")
	require.Equal(t, want[:1], survey("DRYRUN", "{descriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 6}}]}"))
	require.Empty(t, survey("DRYRUN", "{limits: {a: {by: ip, rate: 1/h}}}"))
	// It is so, once the change is made.
	r.Raw("RL.POLICY", "SET", "p", edited)
	over := 0
	for i := range 5 {
		if strings.Contains(r.Raw("RL.DESCRIPTORS", "p", "0", "1", "1", "ip", fmt.Sprintf("192.0.2.%d", i), "-", "-", "PEEK"), "over_limit") {
			over++
		}
	}
	require.Equal(t, 2, over)
}
