package scripts

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
)

const (
	// scriptsDefault is how many scripts RL.SCRIPTS lists without COUNT. scriptsMost is the
	// largest COUNT.
	scriptsDefault = 10
	scriptsMost    = 1000
	// endlessLook is how many keys RL.SCRIPTS examines to find counters that never expire.
	// This takes a worker some milliseconds. endlessMost is how many such counters it
	// names.
	endlessLook = 100_000
	endlessMost = 10
)

// reportCommand is RL.SCRIPTS.
func (s *Scripts) reportCommand() command.Spec {
	return command.Spec{
		Name: "rl.scripts", Arity: -1, Flags: command.Readonly | command.Local | command.NoScript, Categories: command.CatLimiter | command.CatScripting,
		Group: "limiter", Complexity: "O(N log N), N the number of known scripts, and O(K), K the number of keys looked at, at most 100000",
		Summary: "Returns the scripts that clients have sent, how they ran, the equivalent commands of Headgate, and counters that never expire.",
		Syntax:  "[COUNT count]", Handler: s.report,
	}
}

// scriptRuns is a script with its counts. The script is one that clients have sent, a known
// one, or both, if a known script ran as Lua.
type scriptRuns struct {
	sent  *script.Script
	known *native.Script
	script.RunTotals
}

func (r *scriptRuns) sha() string {
	if r.sent != nil {
		return r.sent.SHA
	}
	return ""
}

// Runs returns the sum of the counts of all scripts, including scripts that are no longer
// cached.
func (s *Scripts) Runs() script.RunTotals {
	total := s.cache.Runs()
	for i := range s.known {
		total.Add(s.known[i].Totals())
	}
	return total
}

// ResetRuns resets the counts of all scripts.
func (s *Scripts) ResetRuns() {
	s.cache.ResetRuns()
	for i := range s.known {
		s.known[i].Reset()
	}
}

// mostRun returns the n scripts with the most runs, or fewer if fewer have run.
// All texts of a known script count as one script.
func (s *Scripts) mostRun(n int) []scriptRuns {
	var all []scriptRuns
	known := make([]scriptRuns, len(s.known))
	for i, k := range native.All() {
		known[i] = scriptRuns{nil, k, s.known[i].Totals()}
	}
	for _, sc := range s.cache.Scripts() {
		switch t := sc.Runs.Totals(); {
		case sc.Native != nil:
			k := &known[sc.Native.Index]
			k.sent = sc
			k.Add(t)
		case t.Runs() > 0:
			all = append(all, scriptRuns{sc, nil, t})
		}
	}
	for i := range known {
		if known[i].Runs() > 0 {
			all = append(all, known[i])
		}
	}
	slices.SortStableFunc(all, func(a, b scriptRuns) int {
		return cmp.Or(cmp.Compare(b.Runs(), a.Runs()), cmp.Compare(a.sha(), b.sha()))
	})
	return all[:min(len(all), n)]
}

func (s *Scripts) report(call *command.Call) {
	most, err := parseScriptRuns(call.Args[1:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	call.Host.Block(call, 0, func(w *resp.Writer) {
		total := s.Runs()
		list := s.mostRun(most)
		endless := s.endless()
		p := command.NewPairs(w)
		p.Int("known", int64(s.cache.Len()))
		writeRuns(p, &total)
		scripts := p.List("scripts", len(list))
		for i := range list {
			list[i].write(scripts)
		}
		p.Int("keys_looked_at", int64(endless.Keys))
		p.Int("counters", int64(endless.Counters))
		p.Int("counters_without_ttl", int64(endless.Found))
		writeEndless(p.List("without_ttl", len(endless.Sample)), endless.Sample)
		p.Flush()
	})
}

// endless looks at keys of all groups, as many of each.
func (s *Scripts) endless() (all engine.Endless) {
	for _, e := range s.cfg.Engines {
		found := e.EndlessCounters(endlessLook/len(s.cfg.Engines), endlessMost-len(all.Sample))
		all.Keys, all.Counters, all.Found = all.Keys+found.Keys, all.Counters+found.Counters, all.Found+found.Found
		all.Sample = append(all.Sample, found.Sample...)
	}
	return all
}

func parseScriptRuns(args [][]byte) (most int, err error) {
	most = scriptsDefault
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 || !command.EqualFold(args[0], "count") {
			return 0, command.ErrSyntax
		}
		n, ok := resp.ParseInt(args[1])
		if !ok || n < 1 {
			return 0, errors.New("ERR COUNT must be at least 1")
		}
		most = int(min(n, scriptsMost))
	}
	return most, nil
}

// write replies one script.
func (r *scriptRuns) write(w *resp.Writer) {
	p := command.NewPairs(w)
	if r.sent != nil {
		p.Str("sha1", r.sent.SHA)
		p.Str("text", r.sent.Title())
	}
	if r.known != nil {
		p.Str("library", r.known.Library)
		if r.known.Instead != "" {
			p.Str("instead", r.known.Instead)
		}
	}
	writeRuns(p, &r.RunTotals)
	p.Flush()
}

// writeRuns replies the counts of a script. Its times cover only the runs that were timed.
func writeRuns(p *command.Pairs, t *script.RunTotals) {
	p.Int("runs", int64(t.Runs()))
	p.Int("native", int64(t.Native))
	p.Int("interpreted", int64(t.Interpreted))
	p.Int("moved", int64(t.Moved))
	p.Int("errors", int64(t.Failed))
	p.Int("ended", int64(t.Ended))
	p.Int("mean_ns", int64(t.Mean()))
	p.Int("max_ns", int64(t.Longest))
	p.Int("total_ms", int64(time.Duration(float64(t.Mean())*float64(t.Runs()))/time.Millisecond))
}

// writeEndless replies [[database, key, value], …].
func writeEndless(w *resp.Writer, sample []engine.EndlessCounter) {
	for _, k := range sample {
		w.Array(3)
		w.Int(int64(k.DB))
		w.Bulk(k.Key)
		w.Int(k.Value)
	}
}
