package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
)

// Report is the result of a run.
type Report struct {
	run     *Run
	Skipped string // why the scenario was not run
}

// OK reports whether every check passed, or, for a scenario that must be caught, whether one that must did not.
func (p *Report) OK() bool {
	if p.Skipped != "" {
		return true
	}
	if broken := p.run.Scenario.Broken; broken != nil {
		return slices.ContainsFunc(p.run.findings, func(f oracle.Finding) bool { return !f.OK && slices.Contains(broken, f.Check) })
	}
	return len(p.Failed()) == 0
}

// Failed returns the names of the checks that did not pass.
func (p *Report) Failed() []string {
	var names []string
	for _, f := range p.run.findings {
		if !f.OK {
			names = append(names, f.Check)
		}
	}
	return names
}

// A run is worth nothing in two cases. A machine that stands still for stoodTooLong deposes its leaders. One whose
// processors others had more than mostForeign says nothing about Headgate.
const (
	stoodTooLong = time.Second
	mostForeign  = 0.5
)

// ofTime are the checks that fail if nothing runs for a while.
var ofTime = []string{"live", "gap", "prompt", "available", "failover", "latency", "elections", "fronts", "data", "checks", "recovery"}

// Void reports whether a run says nothing because the machine had no time for it, and only checks failed that depend on time.
// It is to be made again.
func (p *Report) Void() bool {
	if p.OK() || p.run.Scenario.Broken != nil {
		return false
	}
	for _, name := range p.Failed() {
		if !slices.Contains(ofTime, name) {
			return false
		}
	}
	return p.run.machine.Foreign() > mostForeign || slices.ContainsFunc(p.run.machine.Standstills, func(s cluster.Standstill) bool { return s.To.Sub(s.From) >= stoodTooLong })
}

// Dir is where the run's files are.
func (p *Report) Dir() string { return p.run.Dir }

// String is the verdict for a person.
func (p *Report) String() string {
	r := p.run
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, seed %d: ", r.Scenario.Name, r.Mode, r.Seed)
	if p.Skipped != "" {
		fmt.Fprintf(&b, "not run: %s\n", p.Skipped)
		return b.String()
	}
	verdict := "PASSED"
	switch {
	case !p.OK() && r.Scenario.Broken != nil:
		verdict = "FAILED: the checks did not see what is broken on purpose"
	case !p.OK():
		verdict = "FAILED"
	case r.Scenario.Broken != nil:
		verdict = "PASSED: the checks caught what is broken on purpose"
	}
	n := r.history.Count()
	fmt.Fprintf(&b, "%s\n%s\n", verdict, r.Scenario.Doc)
	fmt.Fprintf(&b, "%d calls in %.1f s: %d admitted, %d denied, %d not executed, %d unknown\n", len(r.history.Calls), r.history.Length.Seconds(),
		n[history.Admitted], n[history.Denied], n[history.Refused], n[history.Unknown])
	for _, f := range r.findings {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	fmt.Fprintf(&b, "  machine: %v%s\n", r.machine, r.busyNote())
	if r.unforeseen > 0 {
		fmt.Fprintf(&b, "  %d leaders were lost without the run's doing\n", r.unforeseen)
	}
	if len(r.gaps) > 0 {
		fmt.Fprintf(&b, "  from the harm to the next decision: %s\n", quantiles(r.gaps))
	}
	for _, code := range slices.Sorted(maps.Keys(r.codes)) {
		fmt.Fprintf(&b, "  %d replies %s\n", r.codes[code], code)
	}
	fmt.Fprintf(&b, "history and logs: %s\nagain: go run ./faults -run %s -mode %s -seed %d -rounds %d\n", r.Dir, r.Scenario.Name, r.Mode, r.Seed, r.Rounds)
	return b.String()
}

func (p *Report) save() error {
	return os.WriteFile(filepath.Join(p.run.Dir, "verdict.txt"), []byte(p.String()), 0o644)
}

// TableHead begins a Markdown table of reports, whose rows are Row.
const TableHead = "| scenario | mode | seed | result | calls | beyond limits: measured / bound | answered in 20 ms | outage p50 / max | tables |\n" +
	"|---|---|---|---|---|---|---|---|---|\n"

// Row is the report as a row of TableHead.
func (p *Report) Row() string {
	r := p.run
	result := "pass"
	switch {
	case p.Skipped != "":
		return fmt.Sprintf("| %s | %s | %d | not run: %s | | | | | |\n", r.Scenario.Name, r.Mode, r.Seed, p.Skipped)
	case !p.OK():
		result = "**fail**" + p.why()
	case r.Scenario.Broken != nil:
		result = "caught"
	}
	gap := ""
	if len(r.gaps) > 0 {
		gap = fmt.Sprintf("%.2f / %.2f s", oracle.Quantile(r.gaps, .5).Seconds(), oracle.Quantile(r.gaps, 1).Seconds())
	}
	if len(r.history.Calls) == 0 {
		return fmt.Sprintf("| %s | %s | %d | %s | | | | | |\n", r.Scenario.Name, r.Mode, r.Seed, result)
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %d | %d / %d | %.3f %% | %s | %s |\n", r.Scenario.Name, r.Mode, r.Seed, result,
		len(r.history.Calls), r.extra.Units, r.extra.Bound, 100*r.prompt, gap, r.tables)
}

// why names the checks that did not pass, each with its first violation, for a cell of a
// table. It links to the heading of docs/reliability.md that explains failed rows.
func (p *Report) why() string {
	var checks []string
	for _, f := range p.run.findings {
		if f.OK {
			continue
		}
		what := f.Text
		if len(f.Details) > 0 {
			what = f.Details[0]
		}
		checks = append(checks, f.Check+": "+what)
	}
	return " (" + strings.ReplaceAll(strings.Join(checks, "; "), "|", `\|`) + "; [why](reliability.md#what-failed-and-why))"
}

// FrontsHead begins a Markdown table of the answers to gateways, whose rows are Fronts.
const FrontsHead = "| scenario | mode | by routes: asked | decided | p99 / max | by descriptors: asked | decided | p99 / max |\n" +
	"|---|---|---|---|---|---|---|---|\n"

// Fronts is what gateways were told as a row of FrontsHead; empty if none asked.
func (p *Report) Fronts() string {
	r := p.run
	fronts := r.fronts()
	if p.Skipped != "" || fronts == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |", r.Scenario.Name, r.Mode)
	for _, f := range fronts {
		if len(f.waits) == 0 {
			fmt.Fprintf(&b, " %d | 0 | |", f.asked)
			continue
		}
		ms := func(q float64) float64 { return float64(oracle.Quantile(f.waits, q)) / float64(time.Millisecond) }
		fmt.Fprintf(&b, " %d | %.2f %% | %.1f / %.1f ms |", f.asked, 100*float64(len(f.waits))/float64(f.asked), ms(.99), ms(1))
	}
	b.WriteString("\n")
	return b.String()
}

func quantiles(d []time.Duration) string {
	ms := func(q float64) time.Duration { return oracle.Quantile(d, q).Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p90 %v, max %v (%d times)", ms(.5), ms(.9), ms(1), len(d))
}
