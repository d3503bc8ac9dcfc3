package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The marks around what is written into a Markdown file.
const (
	resultsBegin = "<!-- suites: written by make test-dropin -->\n"
	resultsEnd   = "<!-- end of suites -->\n"
)

// table returns the results in Markdown: how many tests passed, of how many.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| library | version | tests | Redis | Headgate |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |", r.library, r.versionHere(), r.what)
		if r.why != "" {
			fmt.Fprintf(&b, " not run: %s | |\n", r.why)
			continue
		}
		all := r.tests()
		for _, res := range r.results {
			cell := fmt.Sprintf("%d of %d", len(res.passed), all)
			if len(res.passed) < all {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// publish replaces the results in a Markdown file.
func publish(path string, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), resultsBegin)
	_, after, ok2 := strings.Cut(rest, resultsEnd)
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
	return os.WriteFile(path, []byte(before+resultsBegin+"\n"+when+"\n\n"+table(rows)+"\n"+resultsEnd+after), 0o644)
}
