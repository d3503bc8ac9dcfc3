package grammar_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// hostile are texts of MaxText that are made to cost.
func hostile() map[string]string {
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, (grammar.MaxText-len(head)-len(tail))/len(unit)) + tail
	}
	texts := map[string]string{
		"brackets":          fill("", "[", ""),
		"braces":            fill("", "{", ""),
		"pairs of brackets": fill("[", "[],", "]"),
		"flow items":        fill("[", "a,", "a]"),
		"flow pairs":        fill("{", "a:,", "a:}"),
		"empty pairs":       fill("{", ",", "}"),
		"dashes":            fill("", "- ", ""),
		"dashes in lines":   fill("", "-\n", ""),
		"question marks":    fill("", "? ", ""),
		"keys":              fill("", "a:\n", ""),
		"nested keys":       strings.Repeat("a: ", grammar.MaxText/3),
		"comments":          fill("", "#\n", ""),
		"comments behind":   fill("a:\n", "- a #\n", ""),
		"comments and keys": fill("", "a: b\n#\n#\n\n", ""),
		"head comments":     fill("a:\n", " #\n\n - b\n", ""),
		"foot comments":     fill("a:\n", " - b\n\n #\n\n", ""),
		"deep comments":     fill("a:\n", strings.Repeat(" ", 60)+"#\n#\n", "b: c"),
		"comments in lists": fill("[", "a, # b\n", "b]"),
		"a last comment":    fill("a: b\n", "\n#", ""),
		"a comment":         fill("# ", "#", ""),
		"blanks":            fill("a: ", " ", "b"),
		"tabs":              fill("a: ", "\t", "b"),
		"lines":             fill("", "\n", "a: b"),
		"a plain text":      fill("a: ", "a ", "b"),
		"a long line":       fill("a: ", "x\n ", "b"),
		"a quoted text":     fill("a: \"", "\\u0041", "\""),
		"an open quote":     fill("a: \"", "b", ""),
		"quotes":            fill("[", "'',", "]"),
		"escapes":           fill("a: '", "''", "'"),
		"anchors":           fill("a: [", "&a a,", "]"),
		"aliases":           fill("a: &a [a]\nb: [", "*a,", "]"),
		"merges":            fill("", "<<: {}\n", ""),
		"tags":              fill("a: [", "! a,", "]"),
		"documents":         fill("", "---\n", ""),
		"directives":        fill("", "%A\n", "---\n"),
		"colons":            fill("", ":", ""),
		"colons and blanks": fill("", ": ", ""),
		"numbers":           fill("a: ", "9", ""),
		"underscores":       fill("policies: {p: {limits: {l: {rate: 1", "_", "1/s}}}}"),
		"stars":             fill("policies: {p: {limits: {l: {rate: 1/s, when: {a: \"", "*", "\"}}}}}"),
		"surrogates":        fill("a: \"", "\\ud800", "\""),
		"unicode":           fill("a: ", "\U0001F600", ""),
		"parts of by":       fill("policies: {p: {limits: {l: {rate: 1/s, by: ", "a|", "a}}}}"),
		"durations":         fill("policies: {p: {limits: {l: {rate: 1/", "1s", "}}}}"),
	}
	many := func(head, tail, format string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < grammar.MaxText-200; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String() + tail
	}
	texts["unknown keys"] = many("policies: {p: {", "}}", "kay%d: 1, ")
	texts["double keys"] = many("policies: {p: {limits: {", "}}}", "l%[1]d: {rate: 1/s}, l%[1]d: {rate: 1/s}, ")
	texts["policies"] = many("policies:\n", "", " p%d: {limits: {l: {rate: 1/s}}}\n")
	texts["tiers"] = many("policies: {p: {limits: {l: {tiers: {attribute: t, default: 1/s, ", "}}}}}", "t%d: 1/s, ")
	texts["overrides"] = many("policies:\n p:\n  limits: {l: {rate: 1/s}}\n  overrides:\n", "", "  - {when: {a: v%d}, limits: {l: 1/s}}\n")
	texts["overrides of nothing"] = many("policies:\n p:\n  limits: {l: {rate: 1/s}}\n  overrides:\n", "", "  - {when: {a: v%d}, limits: {m: 1/s}}\n")
	texts["deny"] = many("policies:\n p:\n  limits: {l: {rate: 1/s}}\n  deny:\n", "", "  - {a: \"*v*%d*\"}\n")
	texts["networks"] = many("policies:\n p:\n  limits: {l: {rate: 1/s}}\n  deny: [{ip: [", "]}]", "\"2001:db8:%x::/48\", ")
	texts["attributes"] = many("policies: {p: {limits: {l: {rate: 1/s, when: {", "}}}}}", "a%d: b, ")
	texts["conditions"] = many("limits: {l: {rate: 1/s}}\ndeny:\n", "", "- {a: {not: \"*v*%d*\"}, b: {list: l}}\n")
	texts["values"] = many("limits: {l: {rate: 1/s, when: {a: [", "]}}}", "v%d*, ")
	texts["a policy's lists"] = many("limits: {l: {rate: 1/s, when: {a: {list: l7}}}}\nlists: {", "}", "l%d: [a], ")
	texts["lists"] = many("lists: {", "}", "l%d: [a], ")
	return texts
}

// A text of 64 KiB takes at most 50 ms of a processor and 50 MB to load or to refuse. On
// a slow or busy machine it may take as long as four files of policies of that length.
func TestHostileTextsAreCheap(t *testing.T) {
	if policytest.RaceEnabled {
		t.Skip("the race detector's time and memory are not the product's, and one goroutine reads")
	}
	texts := hostile()
	ordinary := func() { loadFile([]byte(texts["policies"])) }
	for name, body := range texts {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(body), grammar.MaxText)
			isCheap(t, func() { loadPolicy([]byte(body)) }, ordinary)
			isCheap(t, func() { loadFile([]byte(body)) }, ordinary)
		})
	}
}

// isCheap requires that f takes no more than a text may. ordinary loads one that is not
// hostile.
func isCheap(t *testing.T, f, ordinary func()) {
	t.Helper()
	const most = 50 * time.Millisecond
	took, bytes, usual := time.Hour, uint64(1)<<60, time.Hour
	for range 5 { // the least of some: a collection may fall into one
		d, b := cost(f)
		took, bytes = min(took, d), min(bytes, b)
		if took < most {
			break
		}
		d, _ = cost(ordinary)
		usual = min(usual, d)
	}
	t.Logf("%v, %d KB", took, bytes>>10)
	require.Less(t, bytes, uint64(50<<20))
	if took >= most {
		require.Less(t, took, 4*usual, "an ordinary file takes %v", usual)
	}
}

// loadPolicy reads and compiles a text as a policy, and loadFile as a file.
func loadPolicy(body []byte) {
	r, err := grammar.ParseRecord("f", "p", body)
	if err != nil {
		_ = err.Error()
		return
	}
	compileAll(r)
}

func loadFile(body []byte) {
	records, err := grammar.ParseFile("f", body)
	if err != nil {
		_ = err.Error()
		return
	}
	compileAll(records...)
}

func compileAll(records ...*policy.Record) {
	e := policytest.Empty().Edit()
	for _, r := range records {
		e.Set(r, policy.Meta{})
	}
	if _, err := e.Finish(1); err != nil {
		_ = err.Error()
	}
}

// cost returns the time of a processor that f takes, and what it allocates.
func cost(f func()) (time.Duration, uint64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := threadTime()
	f()
	took := threadTime() - from
	runtime.ReadMemStats(&after)
	return took, after.TotalAlloc - before.TotalAlloc
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
