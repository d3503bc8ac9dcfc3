package policies_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// Calls, edits of every kind, and overrides that are set, changed and ended, come in any order
// as time goes by. They answer and charge what the rules say, and never in part.
func TestPoliciesAgainstModel(t *testing.T) {
	seeds, steps := 60, 400
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(11, uint64(seed)))
		r := rig.New(t, engine.Config{Shards: 4})
		w := &modelWorld{gone: map[string]bool{}, used: map[string]modelUsed{}, scalings: map[string]int{}, limits: map[string]modelEnding{}, tiers: map[string]modelEnding{}}
		w.change(r, rnd)
		pick := func(values ...string) string { return values[rnd.IntN(len(values))] }
		for step := range steps {
			// All together less than the limits' period.
			r.At(time.Duration(step) * 90 * time.Second)
			w.now = rig.Start/int64(time.Second) + int64(step)*90
			switch rnd.IntN(25) {
			case 0:
				w.change(r, rnd)
				continue
			case 1, 2:
				w.override(r, rnd)
				continue
			}
			call := map[string]string{"user": pick("u1", "u2", "u1", "u2", "u1", "u2", "", "bad", "root"), "tenant": pick("t1", "t2", "t3", ""),
				"op": pick("read", "write"), "tier": pick("free", "pro", "gold", ""), "size": pick("0", "1", "7", "")}
			units, peek := []int64{0, 1, 1, 1, 2}[rnd.IntN(5)], rnd.IntN(8) == 0
			args := []string{"RL.CHECK", "p", "COST", fmt.Sprint(units)}
			for _, name := range []string{"user", "tenant", "op", "tier", "size"} {
				if call[name] != "" || rnd.IntN(2) == 0 {
					args = append(args, name, call[name])
				}
			}
			if peek {
				args = append(args, "PEEK")
			}
			got := rig.ReadChecked(t, r.Parse(r.Raw(args...)).([]any))
			allowed, name, reason, retry, each := w.check(call, units, peek)
			about := fmt.Sprintf("seed %d step %d: %v of %s: %+v", seed, step, args, w.text(), got)
			require.Equal(t, allowed, got.Allowed == 1, about)
			require.Equal(t, reason, got.Reason, about)
			if retry == math.MaxInt64 {
				require.EqualValues(t, -1, got.Retry, about)
			} else {
				require.Equal(t, retry*1000, got.Retry, about)
			}
			if name == "" {
				require.Nil(t, got.Name, about)
			} else {
				require.Equal(t, name, got.Name, about)
			}
			require.Equal(t, w.version, got.Version, about)
			require.EqualValues(t, len(each), got.Applied, about)
			var over []any
			for i := range each {
				v, l := &each[i], got.Limits[each[i].l.name]
				require.Equal(t, v.remaining, l.Remaining, "%s of %s", v.l.name, about)
				require.Equal(t, v.ok, l.Allowed == 1, "%s of %s", v.l.name, about)
				require.Equal(t, v.never && !v.ok, l.Retry == -1, "%s of %s", v.l.name, about)
				require.Equal(t, v.cost, l.Cost, "%s of %s", v.l.name, about)
				require.Equal(t, v.l.mode, l.Mode, about)
				if v.over && v.l.mode == "soft" {
					over = append(over, v.l.name)
				}
			}
			require.ElementsMatch(t, over, got.Soft, about)
		}
	}
}

// change makes a random change of the policy.
func (w *modelWorld) change(r *rig.Rig, rnd *rand.Rand) {
	pick := func(values ...string) string { return values[rnd.IntN(len(values))] }
	args := []string{"RL.POLICY", "SET", "p"}
	p := randomPolicy(rnd)
	kind := rnd.IntN(12)
	if w.version == 0 {
		kind = 0
	}
	switch kind {
	case 9:
		w.reset()
		require.Equal(r.T, w.version, r.Words("RL.POLICY RESET p"))
		return
	case 10:
		call := map[string]string{"user": pick("u1", "u2"), "tenant": pick("t1", "t2", "t3")}
		n := int64(0)
		for i := range w.modelPolicy.limits {
			l := &w.modelPolicy.limits[i]
			key, _ := l.key(call)
			if _, there := w.used[key]; there && len(l.by) > 0 {
				delete(w.used, key)
				n++
			}
		}
		require.Equal(r.T, n, r.Words("RL.POLICY RESET p user "+call["user"]+" tenant "+call["tenant"]))
		return
	case 11:
		w.edit(modelPolicy{}, "")
		line := "RL.POLICY DEL p"
		if rnd.IntN(2) == 0 {
			line += " RESET"
			clear(w.used)
		}
		require.Equal(r.T, w.version, r.Words(line))
		r.Is("RL.CHECK p", "-NOPOLICY there is no policy 'p'")
	case 7, 8:
		to := max(1, w.version-rnd.Int64N(20))
		p = w.past[to-1]
		args = []string{"RL.POLICY", "ROLLBACK", "p", fmt.Sprint(to)}
		if len(p.limits) == 0 { // it was deleted then
			require.ErrorContains(r.T, r.Parse(r.Raw(args...)).(error), "no longer kept")
			return
		}
	}
	change := pick("keep", "proportional", "reset")
	args = append(args, "CHANGE", change)
	if rnd.IntN(3) == 0 && len(w.modelPolicy.limits) > 0 {
		base := w.version - rnd.Int64N(2)
		if args = append(args, "IF", fmt.Sprint(base)); base != w.version {
			if args[1] == "SET" {
				args = append(args, p.text())
			}
			require.EqualError(r.T, r.Parse(r.Raw(args...)).(error), fmt.Sprint("VERSION the policy has another version: ", w.version))
			return
		}
	}
	if args[1] == "SET" {
		args = append(args, p.text())
	}
	reply := r.Parse(r.Raw(args...))
	if len(w.modelPolicy.limits) == 0 || p.text() != w.text() { // else nothing changes
		w.edit(p, change)
	}
	require.Equal(r.T, w.version, reply, args)
}

// override sets, changes or ends an override.
func (w *modelWorld) override(r *rig.Rig, rnd *rand.Rand) {
	tenant := []string{"t1", "t2"}[rnd.IntN(2)]
	l := &w.modelPolicy.limits[rnd.IntN(len(w.modelPolicy.limits))]
	o := modelEnding{tier: []string{"free", "pro"}[rnd.IntN(2)], amount: rnd.Int64N(30) - 1}
	until := ""
	if rnd.IntN(2) == 0 {
		o.until = w.now + 90*(1+rnd.Int64N(20))
		until = fmt.Sprint(" UNTIL ", o.until)
	}
	// ends deletes an override. If it has expired, it may exist or not.
	ends := func(was modelEnding, there bool, about string) {
		n := r.Words("RL.OVERRIDE DEL p " + about)
		if !was.over(w.now) {
			want := int64(0)
			if there {
				want = 1
			}
			require.Equal(r.T, want, n, about)
		}
	}
	switch n := rnd.IntN(8); {
	case n == 0:
		if rnd.IntN(3) == 0 {
			ends(w.scale, w.scale.amount != 0, "SCALE")
			w.scale = modelEnding{}
			return
		}
		o.amount = 1 + rnd.Int64N(250)
		r.Is(fmt.Sprintf("RL.OVERRIDE SET p SCALE %d%%%s", o.amount, until), "OK")
		w.scale = o
	case n < 5 && l.tiers != nil && slices.Contains(l.by, "tenant"):
		about := " tenant " + tenant
		if was, there := w.tiers[tenant]; rnd.IntN(3) == 0 {
			ends(was, there, "TIER"+about)
			delete(w.tiers, tenant)
			return
		}
		r.Is("RL.OVERRIDE SET p TIER "+o.tier+until+about, "OK")
		w.tiers[tenant] = o
	case len(l.by) > 0:
		call := map[string]string{"tenant": tenant, "user": "u1"}
		key, _ := l.key(call)
		about := ""
		for _, name := range l.by {
			about += " " + name + " " + call[name]
		}
		if was, there := w.limits[key]; rnd.IntN(3) == 0 {
			ends(was, there, "LIMIT "+l.name+about)
			delete(w.limits, key)
			return
		}
		r.Is("RL.OVERRIDE SET p LIMIT "+l.name+" RATE "+rateText(o.amount)+until+about, "OK")
		w.limits[key] = o
	}
}
