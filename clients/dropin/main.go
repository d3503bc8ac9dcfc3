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
// Redis's own tests come from Debian's source package.
//
// Some suites insist on ports of this machine: these must be free when the run
// begins. Those whose interpreter or libraries are packages of the system are run
// where these are installed. The report names suites that were not run; they have not passed.
// The run fails if a suite cannot be installed or run, and if something that passes
// against Redis fails against Headgate. Each suite lists exceptions with their reasons,
// for docs/drop-in-tests.md. The run fails, too, if one of them passes, or is no test.
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

func main() {
	err := run(os.Args[1:], os.Stdout)
	hgtest.Clean()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dropin:", err)
		os.Exit(1)
	}
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
	if err := busy(chosen); err != nil {
		return err
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
	for i := range rows {
		if err := rows[i].run(w, out); err != nil {
			failures = append(failures, err)
		}
	}
	fmt.Fprint(out, "\n", table(rows))
	if *doc != "" {
		failures = append(failures, publish(*doc, rows))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("%w\n%s has the details", err, filepath.Join(w.dir, "log"))
	}
	return nil
}

// run runs a suite against each of the servers, unless it cannot be, and checks the
// results.
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
	return r.check()
}
