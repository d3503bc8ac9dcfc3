package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// The marks around what is written into a Markdown file.
const (
	resultsBegin = "<!-- suites: written by make test-dropin -->\n"
	resultsEnd   = "<!-- end of suites -->\n"
)

const tableHead = "| library | version | tests | Redis | Headgate |\n|---|---|---|---|---|\n"

// table returns the results in Markdown: how many tests passed, of how many.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for i := range rows {
		b.WriteString(rows[i].line())
	}
	return b.String()
}

// line is a suite's line of the table.
func (r *row) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s | %s |", r.library, r.versionHere(), r.what)
	if r.why != "" {
		fmt.Fprintf(&b, " not run: %s | |\n", r.why)
		return b.String()
	}
	all := len(r.tests())
	for _, res := range r.results {
		cell := fmt.Sprintf("%d of %d", len(res.passed), all)
		if len(res.passed) < all {
			cell = "**" + cell + "**"
		}
		fmt.Fprintf(&b, " %s |", cell)
	}
	b.WriteByte('\n')
	return b.String()
}

// update returns the lines of a table in the order of the suites. A suite that was run
// has a new line. Another keeps its line for the version that is installed, or for any
// version if none is.
func update(old string, rows []row) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for i := range suites {
		r := row{suite: &suites[i]}
		same := func(o row) bool { return o.library == r.library && o.what == r.what }
		if at := slices.IndexFunc(rows, same); at >= 0 {
			b.WriteString(rows[at].line())
			continue
		}
		version := r.versionHere()
		for line := range strings.Lines(old) {
			cells := strings.SplitN(line, " | ", 4)
			if len(cells) == 4 && cells[0] == "| "+r.library && cells[2] == r.what && (cells[1] == version || version == "?") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// publish puts the results into a Markdown file, in place of the former results of the
// same suites.
func publish(path string, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), resultsBegin)
	old, after, ok2 := strings.Cut(rest, resultsEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no %s", path, strings.TrimSpace(resultsBegin))
	}
	redis, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return err
	}
	_, version, _ := strings.Cut(string(redis), "v=")
	version, _, _ = strings.Cut(version, " ")
	when := fmt.Sprintf("%s, redis-server %s.", time.Now().UTC().Format(time.DateOnly), version)
	return os.WriteFile(path, []byte(before+resultsBegin+"\n"+when+"\n\n"+update(old, rows)+"\n"+differences()+"\n"+resultsEnd+after), 0o644)
}
