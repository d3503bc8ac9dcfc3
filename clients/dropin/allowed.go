package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// allowance is a difference from Redis that users are told of, and the tests that
// meet it. A * in a name stands for any text.
type allowance struct {
	why   string
	tests []string
}

// matches reports whether a pattern of an allowance is of a test.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(name)
}

// allows reports whether a test may fail against Headgate.
func (s *suite) allows(name string) bool {
	return slices.ContainsFunc(s.allowed, func(a allowance) bool {
		return slices.ContainsFunc(a.tests, func(p string) bool { return matches(p, name) })
	})
}

// stale returns the names and patterns among the allowances that no test which
// failed against Headgate has.
func (r *row) stale() []error {
	if r.why != "" {
		return nil
	}
	var errs []error
	for _, a := range r.allowed {
		for _, p := range a.tests {
			if !slices.ContainsFunc(r.results[1].failed, func(name string) bool { return matches(p, name) }) {
				errs = append(errs, fmt.Errorf("%s, %s: %q is allowed to fail, and no such test fails", r.library, r.what, p))
			}
		}
	}
	return errs
}

// differences are the reasons of the allowances in Markdown, each with the libraries
// whose tests meet it.
func differences() string {
	var reasons []string
	libraries := map[string][]string{}
	for i := range suites {
		library := suites[i].library
		for _, a := range suites[i].allowed {
			if libraries[a.why] == nil {
				reasons = append(reasons, a.why)
			}
			if !slices.Contains(libraries[a.why], library) {
				libraries[a.why] = append(libraries[a.why], library)
			}
		}
	}
	var b strings.Builder
	b.WriteString("Tests fail against Headgate for these reasons:\n\n")
	for _, why := range reasons {
		fmt.Fprintf(&b, "- %s (%s)\n", why, strings.Join(libraries[why], ", "))
	}
	return b.String()
}
