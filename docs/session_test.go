package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// session is one fenced block of a page that shows redis-cli at work. Its
// lines are of three kinds:
//
//	127.0.0.1:7379> COMMAND …     typed into redis-cli; [2] behind the port is its database
//	$ redis-cli -p 7379 …         typed into a shell; alone, what follows is typed into it;
//	                              with < name it reads the page's block that begins with # name
//	anything else                 the reply, as redis-cli prints it
//
// The port names the server: 7379 for the only one, or 7379, 7389 and 7399 for
// the nodes of a cluster.
//
// In a reply … stands for any text, as a whole line for any lines, and ~59 for
// a number within 5 % of 59 or 2 beside it. What follows two blanks and # is a
// remark. Blank lines do not count. In a command a word that ends with … is the
// last text in the replies before that begins so, such as the name of a hold.
type session struct {
	page  string
	line  int // of the fence
	steps []step
}

// step is one run of redis-cli: the port that the page gives it, its arguments,
// what is typed into it, and what it must print.
type step struct {
	port  string
	args  []string
	input []string
	want  []string
	whole bool // nothing more is typed into it
}

var (
	cliPrompt   = regexp.MustCompile(`^127\.0\.0\.1:(\d+)(?:\[\d+\])?> `)
	shellPrompt = regexp.MustCompile(`^\$ redis-cli -p (\d+)`)
)

// readSessions returns the sessions of a page.
func readSessions(t *testing.T, page string) []session {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []session
	files := map[string][]string{}
	var block []string
	begin := 0
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "```") {
			if begin > 0 {
				block = append(block, line)
			}
			continue
		}
		if begin == 0 {
			begin = i + 1
			continue
		}
		if len(block) > 0 && (cliPrompt.MatchString(block[0]) || shellPrompt.MatchString(block[0])) {
			out = append(out, session{page, begin, parseSteps(block, files)})
		}
		if len(block) > 0 && strings.HasPrefix(block[0], "# ") {
			files[block[0][2:]] = block
		}
		block, begin = nil, 0
	}
	return out
}

// abridged is a word of a command that stands for a longer one.
var abridged = regexp.MustCompile(`\S+…`)

// complete returns a command with its abridged words written out, as they were in
// what was printed before it.
func complete(line string, printed []string) string {
	return abridged.ReplaceAllStringFunc(line, func(word string) string {
		texts := regexp.MustCompile(`"(` + regexp.QuoteMeta(strings.TrimSuffix(word, "…")) + `[^"]*)"`)
		for i := len(printed) - 1; i >= 0; i-- {
			if m := texts.FindStringSubmatch(printed[i]); m != nil {
				return m[1]
			}
		}
		return word
	})
}

var remark = regexp.MustCompile(`\s{2,}# .*$`)

// parseSteps reads a session. files are the blocks before it that have a name.
func parseSteps(block []string, files map[string][]string) []step {
	var steps []step
	for _, line := range block {
		line = strings.TrimRight(remark.ReplaceAllString(line, ""), " ")
		shell, typed := shellPrompt.FindStringSubmatch(line), cliPrompt.FindStringSubmatch(line)
		switch {
		case line == "":
		case shell != nil:
			args, file, _ := strings.Cut(line[len(shell[0]):], " < ")
			steps = append(steps, step{port: shell[1], args: splitWords(args), input: files[file], whole: file != ""})
		case typed != nil:
			if last := len(steps) - 1; last < 0 || steps[last].port != typed[1] || steps[last].whole || abridged.MatchString(line) {
				steps = append(steps, step{port: typed[1]})
			}
			s := &steps[len(steps)-1]
			s.input = append(s.input, line[len(typed[0]):])
		default:
			s := &steps[len(steps)-1]
			s.want = append(s.want, line)
		}
	}
	return steps
}

// commands returns the commands of a session, a line each.
func (s session) commands() []string {
	var out []string
	for _, st := range s.steps {
		if len(st.input) > 0 && !st.whole {
			out = append(out, st.input...)
		} else {
			out = append(out, strings.Join(st.args, " "))
		}
	}
	return out
}

// splitWords splits a shell line that quotes with "" at most.
func splitWords(s string) []string {
	var out []string
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// matchLines reports whether got is what want describes.
func matchLines(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "…" {
		for i := range len(got) + 1 {
			if matchLines(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(want[0], got[0]) && matchLines(want[1:], got[1:])
}

var about = regexp.MustCompile(`~\d+`)

func matchLine(want, got string) bool {
	var numbers []int64
	pattern := ""
	rest := want
	for {
		at := about.FindStringIndex(rest)
		if at == nil {
			break
		}
		n, err := strconv.ParseInt(rest[at[0]+1:at[1]], 10, 64)
		if err != nil {
			return false
		}
		numbers = append(numbers, n)
		pattern += regexp.QuoteMeta(rest[:at[0]]) + `(\d+)`
		rest = rest[at[1]:]
	}
	pattern = strings.ReplaceAll(pattern+regexp.QuoteMeta(rest), "…", ".*")
	m := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, n := range numbers {
		v, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || v < n-max(2, n/20) || v > n+max(2, n/20) {
			return false
		}
	}
	return true
}

func TestMatchLines(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"(integer) 5", "(integer) 5", true},
		{"(integer) 5", "(integer) 6", false},
		{"(integer) ~1000", "(integer) 951", true},
		{"(integer) ~1000", "(integer) 949", false},
		{"(integer) ~3", "(integer) 1", true},
		{"(integer) ~3", "(integer) 0", false},
		{`5) "…"`, `5) "abc"`, true},
		{`5) "…"`, `5) (nil)`, false},
		{"a\n…\nb", "a\nx\ny\nb", true},
		{"a\n…\nb", "a\nb", true},
		{"a\n…\nb", "a\nx", false},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"a (b)", "a (b)", true},
		{"a.b", "axb", false},
	} {
		if got := matchLines(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")); got != c.ok {
			t.Errorf("%q against %q: %v", c.want, c.got, got)
		}
	}
}

// ofCluster reports whether the session names a node of a cluster.
func (s session) ofCluster() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool { return st.port != "7379" })
}

func (s session) String() string { return fmt.Sprintf("%s:%d", s.page, s.line) }
