package main

import (
	"errors"
	"fmt"
	"maps"
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

// Reasons that several suites have.
const (
	whyAbsent    = "Headgate does not have the command or its subcommand."
	whyOneUser   = "The only users are `default` and `admin`: `ACL` cannot create users, and does not show their rights."
	whyOwnConfig = "`CONFIG` has Headgate's own parameters and bounds."
	whyLarge     = "A value has at most 1 MiB."
	whyFar       = "A time to live ends in the year 2262 at the latest."
	whyScan      = "`HSCAN`, `SSCAN` and `ZSCAN` answer everything in one reply."
	whySwap      = "`SWAPDB` is not supported."
	whyIdle      = "`OBJECT` shows neither idle times nor frequencies."
	whyKeyFlags  = "`COMMAND GETKEYSANDFLAGS` gives all keys of a command the flags of the whole command."
	whyMemory    = "`maxmemory` is at least 1 MiB."
)

// of returns names that begin with the same text.
func of(prefix string, names ...string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = prefix + name
	}
	return list
}

// expression returns the regular expression of an allowance's name.
func expression(name string) string {
	parts := strings.Split(name, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return "^" + strings.Join(parts, ".*") + "$"
}

// number is what follows a name in a report if an earlier test has the same name.
var number = regexp.MustCompile(` \(\d+\)$`)

// lists returns all allowances of the suite.
func (s *suite) lists() []allowance { return slices.Concat(s.allowed, s.notRun) }

// check returns an error for each test that fails against Headgate alone without being
// allowed to. It also returns one for each allowed test that passes, and for each allowed
// name without a test.
func (r *row) check() error {
	names := map[string]*regexp.Regexp{}
	for _, a := range r.lists() {
		for _, name := range a.tests {
			names[name] = regexp.MustCompile(expression(name))
		}
	}
	used := map[string]bool{}
	allowed := func(test string) (found bool) {
		test = number.ReplaceAllString(test, "")
		for name, re := range names {
			if re.MatchString(test) {
				used[name], found = true, true
			}
		}
		return found
	}
	var errs []error
	wrong := func(test, how string) {
		errs = append(errs, fmt.Errorf("%s, %s: %q %s", r.library, r.what, test, how))
	}
	redis, headgate := r.results[0], r.results[1]
	for _, test := range headgate.passed {
		if allowed(test) {
			wrong(test, "is allowed to fail, and passes")
		}
	}
	for _, test := range r.tests() {
		both := !r.alone && slices.Contains(redis.failed, test)
		if !slices.Contains(headgate.passed, test) && !allowed(test) && !both {
			wrong(test, "fails against Headgate alone, and is not allowed to")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !used[name] {
			wrong(name, "is allowed to fail, and is no test")
		}
	}
	return errors.Join(errs...)
}

// differences are the reasons of the allowances in Markdown, each with the libraries
// whose tests meet it.
func differences() string {
	var reasons []string
	libraries := map[string][]string{}
	for i := range suites {
		library := suites[i].library
		for _, a := range suites[i].lists() {
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
