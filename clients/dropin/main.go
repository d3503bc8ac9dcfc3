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
// Some suites insist on port 6379 of this machine, or on 7379: it must be free.
// The exit status is 1 if something that passes against Redis fails against
// Headgate, and 2 if nothing could be run.
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

	"github.com/headgate-io/headgate/internal/hgtest"
)

// errFailed is the error of a run in which Headgate failed where Redis did not.
var errFailed = errors.New("what passes against Redis failed")

func main() {
	err := run(os.Args[1:], os.Stdout)
	hgtest.Clean()
	switch {
	case err == nil:
	case errors.Is(err, errFailed):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "dropin:", err)
		os.Exit(2)
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
	doc := flags.String("doc", "", "put the table into this Markdown `file`, between its marks")
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
			fmt.Fprintf(out, "%-24s %-10s %s\n", chosen[i].library, chosen[i].version, chosen[i].what)
		}
		return nil
	}
	w := &workshop{dir: *cache}
	for i := range chosen {
		if err := chosen[i].fetch(w, &chosen[i]); err != nil {
			return fmt.Errorf("install %s: %w", chosen[i].library, err)
		}
	}
	if *fetch {
		return nil
	}
	var rows []row
	failed := false
	for i := range chosen {
		r := row{suite: &chosen[i]}
		for _, server := range servers {
			fmt.Fprintf(out, "== %s %s, against %s\n", r.library, r.version, server.name)
			res, err := r.against(w, server)
			if err != nil {
				return fmt.Errorf("%s, against %s: %w", r.library, server.name, err)
			}
			fmt.Fprintf(out, "%v\n", res)
			r.results = append(r.results, res)
		}
		failed = failed || r.worse()
		rows = append(rows, r)
	}
	fmt.Fprint(out, "\n", table(rows))
	if *doc != "" {
		if err := publish(*doc, rows); err != nil {
			return err
		}
	}
	if failed {
		return errFailed
	}
	return nil
}
