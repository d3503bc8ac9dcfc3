// Command faults runs fault scenarios against real Headgate nodes and judges what their clients saw.
//
//	go run ./faults -list
//	go run ./faults -run leader-kills -mode sync -seed 7
//	go run ./faults -all [-brief]
//
// Each run gets a directory with the history of all calls, the servers' logs and the verdict. The exit status is 1 if a
// promise was broken, and 2 if a run could not be carried out.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/scenario"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// errViolated is the error of a run that broke a promise.
var errViolated = errors.New("a promise was broken")

// attempts are how often a run is made that is void: see scenario.Report.
const attempts = 3

// gcPercent has the runner's garbage collected some times a second instead of sixteen. The nodes share its processors,
// and their messages to each other pass through it.
const gcPercent = 1000

func main() {
	debug.SetGCPercent(gcPercent)
	err := run(os.Args[1:], os.Stdout)
	switch {
	case err == nil:
	case errors.Is(err, errViolated):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	list := flags.Bool("list", false, "list the scenarios")
	all := flags.Bool("all", false, "run every scenario in every mode")
	name := flags.String("run", "", "run these `scenarios`, separated by commas")
	mode := flags.String("mode", "", "durability: async or sync (default both, where the scenario has both)")
	seed := flags.Uint64("seed", 0, "seed of the run's random choices (default: from the clock)")
	var d docs
	flags.StringVar(&d.results, "doc", "", "put the table of results into this Markdown `file`, between its marks")
	flags.StringVar(&d.tests, "tests-doc", "", "put the scenarios, and the bounds of liveness, into this Markdown `file`, between its marks")
	flags.StringVar(&d.leases, "leases-doc", "", "put what leases admitted too much into this Markdown `file`, between its marks")
	var o scenario.Options
	flags.IntVar(&o.Rounds, "rounds", 0, "how often the harm is done (default: the scenario's own number)")
	flags.Float64Var(&o.Rate, "rate", 0, "`calls` per second (default: the scenario's own)")
	flags.BoolVar(&o.Brief, "brief", false, "do the harm a third as often as the scenarios say, but each kind of it once")
	flags.StringVar(&o.Dir, "out", filepath.Join(os.TempDir(), "headgate-faults"), "`directory` for histories and logs")
	serve := flags.String("serve", "", "further `arguments` of headgate serve, separated by spaces, such as --raft-profile=slow")
	flags.StringVar(&o.Bin, "bin", "", "headgate `executable` (default: built from this tree)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		for _, s := range scenario.All {
			fmt.Fprintf(out, "%-18s %-11s  %s\n", s.Name, strings.Join(s.Modes, ","), s.Doc)
		}
		return nil
	}
	if *mode != "" && *mode != scenario.Async && *mode != scenario.Sync {
		return fmt.Errorf("no mode %q: want %s or %s", *mode, scenario.Async, scenario.Sync)
	}
	var chosen []*scenario.Scenario
	switch {
	case *all:
		for i := range scenario.All {
			chosen = append(chosen, &scenario.All[i])
		}
	case *name != "":
		for n := range strings.SplitSeq(*name, ",") {
			s := scenario.Find(n)
			if s == nil {
				return fmt.Errorf("no scenario %q, see -list", n)
			}
			chosen = append(chosen, s)
		}
	default:
		return errors.New("want -list, -run or -all")
	}
	if o.Seed = *seed; o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	of := "of " + o.Bin
	if o.Bin == "" {
		bin, err := subprocess.Build(o.Dir)
		if err != nil {
			return err
		}
		o.Bin, of = bin, sources()
	}
	o.Args = strings.Fields(*serve)
	o.Log = func(line string) { fmt.Fprintln(out, line) }
	return execute(chosen, *mode, o, of, d, out)
}

// docs are files that results are put into; empty: none.
type docs struct{ results, tests, leases string }

// sources names the commit that the working directory is of.
func sources() string {
	commit, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "of no commit"
	}
	text := "of commit " + strings.TrimSpace(string(commit))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changed) > 0 {
		text += ", changed"
	}
	return text
}

// execute runs the scenarios, each in the given mode or in all of its modes; of is what the nodes were built from.
func execute(chosen []*scenario.Scenario, mode string, o scenario.Options, of string, d docs, out io.Writer) error {
	violated := false
	var again []string
	begin := time.Now()
	rows, fronts := scenario.TableHead, scenario.FrontsHead
	var reports []*scenario.Report
	for _, s := range chosen {
		for _, m := range s.Modes {
			if mode != "" && m != mode || mode == "" && !s.Runs(m, o.Brief) {
				continue
			}
			o.Mode = m
			fmt.Fprintf(out, "== %s, %s, seed %d\n", s.Name, m, o.Seed)
			var report *scenario.Report
			for attempt := 1; ; attempt++ {
				from := time.Now()
				var err error
				if report, err = scenario.Execute(s, o); err != nil {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				fmt.Fprintf(out, "%v(%v of %v)\n\n", report, time.Since(from).Round(time.Second), time.Since(begin).Round(time.Second))
				if !report.Void() || attempt == attempts {
					break
				}
				fmt.Fprintf(out, "== the machine had no time: %s, %s again\n", s.Name, m)
				again = append(again, s.Name+" "+m)
			}
			reports = append(reports, report)
			rows += report.Row()
			fronts += report.Fronts()
			violated = violated || !report.OK()
		}
	}
	if fronts != scenario.FrontsHead {
		rows += "\nWhat [gateways](reliability-tests.md#gateways) asked of nodes that ran:\n\n" + fronts
	}
	leases := scenario.LeasesTable(reports)
	fmt.Fprint(out, rows, leases)
	how := fmt.Sprintf("%s, all in %v", of, time.Since(begin).Round(time.Second))
	if o.Brief {
		how += " with `-brief`"
	}
	if len(again) > 0 {
		how += "; made again, since the machine had no time for them: " + strings.Join(again, ", ")
	}
	if d.results != "" {
		if err := publish(d.results, part{resultsBegin, resultsEnd, when(how) + rows}); err != nil {
			return err
		}
	}
	if d.tests != "" {
		if err := publish(d.tests, part{scenariosBegin, scenariosEnd, scenario.Table()}, part{livenessBegin, livenessEnd, scenario.LivenessTable()}); err != nil {
			return err
		}
	}
	if d.leases != "" {
		if err := publish(d.leases, part{resultsBegin, resultsEnd, when(how) + leases}); err != nil {
			return err
		}
	}
	if violated {
		return errViolated
	}
	return nil
}

// The marks around what is written into a Markdown file.
const (
	scenariosBegin = "<!-- scenarios: written by make test-faults -->\n"
	scenariosEnd   = "<!-- end of scenarios -->\n"
	livenessBegin  = "<!-- liveness: written by make test-faults -->\n"
	livenessEnd    = "<!-- end of liveness -->\n"
	resultsBegin   = "<!-- results: written by make test-faults -->\n"
	resultsEnd     = "<!-- end of results -->\n"
)

// part is what is written between two marks.
type part struct{ begin, end, text string }

// when says when and how results came about.
func when(how string) string {
	return fmt.Sprintf("%s, %d cores, %s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), how)
}

// publish replaces parts of a Markdown file.
func publish(path string, parts ...part) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc := string(text)
	for _, p := range parts {
		if doc, err = replace(doc, p.begin, p.end, p.text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(doc), 0o644)
}

// replace replaces what is between two marks.
func replace(text, begin, end, with string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("no %s", strings.TrimSpace(begin))
	}
	return before + begin + "\n" + with + "\n" + end + after, nil
}
