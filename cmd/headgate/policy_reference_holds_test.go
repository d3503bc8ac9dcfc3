package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// The cases of the reference in which something is held: estimates, and slots.

// Tokens of a language model: an estimate is held, the real cost settled. Here
// calls cost less by what time gives back in the reference.
func checkTokens(w *wire) {
	w.set("llm", `{hold: {ttl: 2m}, limits: {rpm: {by: key, rate: 60/1000m}, tpm: {by: key, rate: 6000/1000m, cost: tokens}}}`)
	w.reserve("llm key k tokens 4000 ID h1").allows("tpm", "rpm=59 tpm=2000")
	w.reserve("llm key k tokens 2500").denies("tpm", 5000*time.Second, "rpm=59 tpm=2000")
	v := w.settle("RL.COMMIT llm;h1 tokens 200")
	v.allows("tpm", "rpm=59 tpm=5800")
	require.Equal(w.t, "committed", v.reason)
	w.reserve("llm key k tokens 3000 ID h2").allows("tpm", "tpm=2800")
	v = w.settle("RL.COMMIT llm;h2 tokens 6000")
	v.allows("tpm", "tpm=0")
	require.EqualValues(w.t, 200, v.over)
	w.reserve("llm key k tokens 1").denies("tpm", 2010*time.Second, "tpm=0")
	again := w.settle("RL.CANCEL llm;h2")
	require.Equal(w.t, []any{"committed", int64(200), int64(0)}, []any{again.reason, again.over, again.remaining}, "the first settlement stands")

	// A hold that nobody settles is given back, within a second or two.
	begin := time.Now()
	w.reserve("llm key l tokens 3000 TTL 1s ID h3").allows("tpm", "tpm=3000")
	require.Eventually(w.t, func() bool {
		left := w.check("llm key l tokens 0 COST 0").left["tpm"]
		if time.Since(begin) < time.Second {
			require.EqualValues(w.t, 3000, left, "it is held")
		}
		return left == 6000
	}, waitLimit, 20*time.Millisecond)
	v = w.settle("RL.COMMIT llm;h3 tokens 500") // late, it is charged all the same
	v.allows("tpm", "tpm=5500")
	require.NotContains(w.t, w.settle("RL.COMMIT llm;h3 tokens 500").left, "tpm", "and once")
}

// checkHolds reserves on one node, sets another rate on the next, and commits on a
// third: the commit uses that rate. A repeated call is charged once.
func checkHolds(w *wire) {
	w.set("held", "{limits: {t: {by: u, rate: 100/d}}}")
	one := func(line string) resp.Reply {
		w.t.Helper()
		return w.send(strings.Fields(line))[0]
	}
	for i := int64(1); i <= 4; i++ {
		reserve := fmt.Sprintf("RL.RESERVE held u eve COST 1 ID h%d", i)
		first, again := one(reserve), one(reserve)
		require.Len(w.t, first.Elems, 13, "%+v", first)
		require.Equal(w.t, first.Elems[2], again.Elems[2])
		one(fmt.Sprintf("RL.OVERRIDE SET held LIMIT t RATE %d000/d u eve", i))
		commit := fmt.Sprintf("RL.COMMIT held;h%d COST 2", i)
		for _, r := range []resp.Reply{one(commit), one(commit)} {
			require.Len(w.t, r.Elems, 14, "%+v", r)
			require.Equal(w.t, []int64{1, 1000 * i, 998 * i}, []int64{r.Elems[0].Int, r.Elems[1].Int, r.Elems[2].Int})
		}
	}
}

// Exports: two at once for each tenant and route, and so many a day.
func checkExports(w *wire) {
	w.set("export", `{limits: {run: {by: [t, route], concurrent: 2, ttl: 10m}, day: {by: t, rate: 20/day, calendar: UTC}}}`)
	const call, minutes = "export t A route /x", 10 * time.Minute
	settles := func(line, reason, left string) {
		w.t.Helper()
		v := w.settle(line)
		require.Equal(w.t, reason, v.reason)
		v.says("run", left)
	}
	first := w.check(call)
	first.allows("run", "run=1 day=19")
	require.Contains(w.t, first.hold, "export;")
	second := w.check(call)
	second.allows("run", "run=0 day=18")
	v := w.check(call)
	v.denies("run", minutes, "run=0 day=18")
	require.Empty(w.t, v.hold)
	w.check(call+" PEEK").denies("run", minutes, "run=0 day=18")
	settles("RL.COMMIT "+first.hold, "committed", "run=1 day=18")
	require.Equal(w.t, "committed", w.settle("RL.CANCEL "+first.hold).reason, "the first settlement stands")
	v = w.check(call)
	v.allows("run", "run=0 day=17")
	settles("RL.CANCEL "+v.hold, "cancelled", "run=1 day=18")
	w.check("export t A route /y").allows("run", "run=1 day=17")

	// A repeat renews the slot, and charges nothing. A slot that has ended is taken
	// anew, if there is room.
	const job = call + " ID job"
	w.check(job).allows("run", "run=0 day=16")
	v = w.check(job)
	v.allows("run", "")
	require.Equal(w.t, "export;job", v.hold)
	w.check(call+" PEEK").denies("run", minutes, "day=16")
	settles("RL.COMMIT export;job", "committed", "run=1 day=16")
	w.check(job).allows("run", "")
	w.check(call+" PEEK").denies("run", minutes, "run=0 day=16")
	require.Equal(w.t, "committed", w.settle("RL.COMMIT export;job").reason)

	// A reservation ends as it says, slots and all.
	reserve := func() verdict {
		return w.verdict("RL.RESERVE", w.send(strings.Fields("RL.RESERVE " + call + " TTL 2s ID short"))[0], 13)
	}
	reserve().allows("run", "run=0 day=15")
	v = w.check(call + " PEEK")
	v.denies("run", 2*time.Second, "run=0 day=15")
	v.wait()
	w.check(call+" PEEK").allows("run", "run=0")
	require.Eventually(w.t, func() bool { return w.check(call + " COST 0").left["day"] == 16 }, waitLimit, 50*time.Millisecond)
	third := w.check(call)
	third.allows("run", "run=0 day=15")
	v = reserve()
	v.denies("run", minutes, "")
	require.Equal(w.t, "limit", v.reason)
	settles("RL.COMMIT "+second.hold, "committed", "run=1 day=15")
	reserve().allows("run", "")
	w.check(call+" PEEK").denies("run", 2*time.Second, "run=0 day=15")

	// A reset of a caller frees its slots, and ends the holds.
	require.EqualValues(w.t, 2, w.send(strings.Fields("RL.POLICY RESET export t A route /x"))[0].Int)
	w.check(call+" COST 0").allows("run", "run=2 day=20")
	require.Contains(w.t, w.send([]string{"RL.COMMIT", third.hold})[0].Str, "NOHOLD")
}
