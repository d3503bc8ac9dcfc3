// Command dropin runs the tests of rate-limiting libraries that are made for
// Redis, against redis-server and against Headgate, and prints a table.
//
//	go run ./clients/dropin
//	go run ./clients/dropin -only limits,redis_rate
//
// The libraries come from their package registries, in the versions that suites
// names, into a cache directory outside of the source tree. Where the package
// carries the library's own tests, those are run, unchanged. Where it does not,
// it is a contract of ours through the library.
//
// Redis's own tests come from Debian's source package. What Headgate does not
// pass of them is a list that must be exact, or the run fails.
//
// Some suites insist on port 6379 of this machine, or on another: it must be
// free. Those whose interpreter or libraries are packages of the system are run
// where these are installed. What was not run is told, and has not passed.
// The exit status is 1 if something that passes against Redis fails against
// Headgate, other than what the suite allows with a reason, which docs/drop-in.md lists.
// It is 2 if a suite could not be installed or run, or allows what does not fail.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// errFailed is the error of a run in which Headgate failed where Redis did not.
var errFailed = errors.New("what passes against Redis failed")

func main() {
	err := run(os.Args[1:], os.Stdout)
	hgtest.Clean()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "dropin:", err)
	if errors.Is(err, errFailed) {
		os.Exit(1)
	}
	os.Exit(2)
}

func run(args []string, out io.Writer) error {
	home, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("dropin", flag.ContinueOnError)
	only := flags.String("only", "", "run the suites of these `libraries`, separated by commas")
	cache := flags.String("cache", filepath.Join(home, "headgate-dropin"), "`directory` for what the registries send")
	doc := flags.String("doc", "", "put the results into the table in this Markdown `file`, between its marks")
	fetch := flags.Bool("fetch", false, "install the libraries and run nothing")
	list := flags.Bool("list", false, "list the suites")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := suites
	if *only != "" {
		names := strings.Split(*only, ",")
		chosen = slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !slices.Contains(names, s.library) })
		if len(chosen) == 0 {
			return fmt.Errorf("no suite of %s, see -list", *only)
		}
	}
	if *list {
		for i := range chosen {
			fmt.Fprintf(out, "%-24s %-10s %s\n", chosen[i].library, chosen[i].versionHere(), chosen[i].what)
		}
		return nil
	}
	w, err := openWorkshop(*cache)
	if err != nil {
		return err
	}
	rows := make([]row, len(chosen))
	var failures []error
	for i := range chosen {
		s := &chosen[i]
		rows[i].suite = s
		if what := s.missing(); what != "" {
			rows[i].why = "needs " + what
		} else if err := s.fetch(w, s); err != nil {
			rows[i].why = "could not be installed"
			failures = append(failures, fmt.Errorf("install %s: %w", s.library, err))
		}
	}
	if *fetch {
		return errors.Join(failures...)
	}
	for i := range rows {
		if err := rows[i].run(w, out); err != nil {
			failures = append(failures, err)
		}
	}
	fmt.Fprint(out, "\n", table(rows))
	if *doc != "" {
		failures = append(failures, publish(*doc, rows))
	}
	for i := range rows {
		failures = append(failures, rows[i].stale()...)
	}
	if slices.ContainsFunc(rows, func(r row) bool { return r.worse() }) {
		failures = append(failures, fmt.Errorf("%w; %s has the details", errFailed, filepath.Join(w.dir, "log")))
	}
	return errors.Join(failures...)
}

// run runs a suite against each of the servers, unless it cannot be.
func (r *row) run(w *workshop, out io.Writer) error {
	if r.why != "" {
		fmt.Fprintf(out, "== %s: not run: %s\n", r.library, r.why)
		return nil
	}
	for _, sv := range servers {
		fmt.Fprintf(out, "== %s %s, against %s\n", r.library, r.versionHere(), sv.name)
		from := time.Now()
		res, err := r.against(w, sv)
		if err != nil {
			r.why = "could not be run"
			return fmt.Errorf("%s, against %s: %w", r.library, sv.name, err)
		}
		fmt.Fprintf(out, "%v, %v\n", res, time.Since(from).Round(100*time.Millisecond))
		r.results = append(r.results, res)
	}
	return nil
}
