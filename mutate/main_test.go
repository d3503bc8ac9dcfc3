package main

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The lists can be read. That their edits fit the sources is no test: a change of
// the sources need not wait for a change of the lists.
func TestLists(t *testing.T) {
	all, err := load(lists)
	require.NoError(t, err)
	require.NotEmpty(t, all)
}

func TestLoad(t *testing.T) {
	f := func(text string) ([]Mutation, error) {
		return load(fstest.MapFS{"lists/a.yaml": {Data: []byte(text)}})
	}
	whole := "x:\n- breaks: it adds\n  at: T.add\n  find: a + b\n  replace: a - b\n  killed by: TestA\n"
	got, err := f(whole + strings.Replace(whole[3:], "it adds", "other", 1) + "  in: y\n" + strings.Replace(whole, "x:", "a/b:", 1))
	require.NoError(t, err)
	require.Equal(t, []Mutation{
		{Breaks: "it adds", Package: "a/b", Decl: "T.add", Find: "a + b", Replace: "a - b", Killed: "TestA", TestPackage: "a/b"},
		{Breaks: "it adds", Package: "x", Decl: "T.add", Find: "a + b", Replace: "a - b", Killed: "TestA", TestPackage: "x"},
		{Breaks: "other", Package: "x", Decl: "T.add", Find: "a + b", Replace: "a - b", Killed: "TestA", TestPackage: "y"},
	}, got)
	for text, want := range map[string]string{
		whole + "  kiled by: TestB\n":                        "field kiled by not found",
		strings.Replace(whole, "TestA", `""`, 1):             "is missing",
		strings.Replace(whole, "find: a + b", "find: //", 1): "is missing",
		strings.Replace(whole, "a - b", "a + b", 1):          "is missing",
		strings.Replace(whole, "it adds", "it adds: x", 1):   "mapping values are not allowed",
	} {
		_, err := f(text)
		require.ErrorContains(t, err, want)
	}
	_, err = load(fstest.MapFS{"lists/a.yaml": {Mode: fs.ModeDir}})
	require.Error(t, err)
}

func TestChooseGivesEachItsTurn(t *testing.T) {
	all := make([]Mutation, 50)
	for i := range all {
		all[i].Breaks = strings.Repeat("x", i)
	}
	require.Equal(t, choose(all, 10, 20781), choose(all, 10, 20781))
	var seen []Mutation
	for day := 20781; day < 20786; day++ {
		seen = append(seen, choose(all, 10, day)...)
	}
	require.ElementsMatch(t, all, seen)
	require.NotEqual(t, all, seen, "mutations of a package are on different days")
	require.NotEqual(t, choose(all, 49, 1), choose(all, 49, 2))
}

// module is a small one, to be broken.
var module = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"a/a.go": "package a\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Half(n int) int {\n\tfor n%2 > 0 {\n\t\tn--\n\t}\n\treturn n / 2\n}\n",
	"p/p.go": "package main\n\nimport \"example.com/m/a\"\n\nfunc main() { print(a.Add(1, 1)) }\n",
	"a/a_test.go": `package a

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if Add(1, 1) == 3 {
		code = 3 // and no test says so
	}
	os.Exit(code)
}

func TestAdd(t *testing.T) {
	if Add(2, 0) != 2 {
		t.Error("no")
	}
}

func TestTwo(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if Add(1, 2) != 3 {
			panic("no")
		}
	})
}

func TestHalf(t *testing.T) {
	if Half(5) != 2 {
		t.Error("no")
	}
}

func TestProgram(t *testing.T) {
	out, err := exec.Command("go", "run", "example.com/m/p").CombinedOutput()
	if err != nil {
		t.Fatalf("build headgate: %s", out)
	}
	if string(out) != "2" {
		t.Errorf("%s", out)
	}
}

func TestFails(t *testing.T) { t.Error("always") }
`,
}

func TestVerdicts(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range module {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	const add = "return a + b"
	for name, c := range map[string]struct {
		m    Mutation
		want string // empty: it is killed
	}{
		"a failure":        {Mutation{Find: add, Replace: "return a*b + 7", Killed: "TestAdd"}, ""},
		"a panic":          {Mutation{Find: add, Replace: "return a - b", Killed: "TestTwo/sub"}, ""},
		"a hang":           {Mutation{Decl: "Half", Find: "n--", Replace: "n += 2", Killed: "TestHalf"}, ""},
		"a program":        {Mutation{Find: add, Replace: "return a*b + 7", Killed: "TestProgram"}, ""},
		"a broken program": {Mutation{Package: "p", Decl: "main", Find: "print(", Replace: "prin(", Killed: "TestProgram"}, "a program of the test does not compile"},
		"a survivor":       {Mutation{Find: add, Replace: "return a - b", Killed: "TestAdd"}, "SURVIVED"},
		"no compilation":   {Mutation{Find: add, Replace: "return c", Killed: "TestAdd"}, "does not compile"},
		"no test fails":    {Mutation{Find: add, Replace: "if a == b {\n\t\treturn 3\n\t}\n\treturn a + b", Killed: "TestAdd"}, "the binary fails, and no test"},
		"no test":          {Mutation{Find: add, Replace: "return a - b", Killed: "TestMissing"}, "there is no test TestMissing"},
		"fails without":    {Mutation{Find: add, Replace: "return a - b", Killed: "TestFails"}, "without the edit: the test fails"},
		"no longer there":  {Mutation{Find: "a + c", Killed: "TestAdd"}, "found 0 times"},
	} {
		t.Run(name, func(t *testing.T) {
			c.m.Package = cmp.Or(c.m.Package, "a")
			c.m.Decl = cmp.Or(c.m.Decl, "Add")
			c.m.TestPackage = "a"
			r := newRunner(root, t.TempDir())
			if name == "a hang" {
				r.grace = 0
			}
			err := r.run(context.Background(), &c.m)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
	source, err := os.ReadFile(filepath.Join(root, "a/a.go"))
	require.NoError(t, err)
	require.Equal(t, module["a/a.go"], string(source), "the tree is left alone")
}

// An edit finds its place in whichever file its declaration is, however that is
// written and whatever else has changed there.
func TestApply(t *testing.T) {
	root := t.TempDir()
	const source = `package a

const (
	small = 1 // 7
	large = 7
)

var x, y = 7, 8

type T[K any] struct{ a, b int }

func (t *T[K]) add(n int) int {
	if n > 7 && // more than 7
		t.a > 7 {
		return f(t.a, n)
	}
	return t.a + n
}

func f(a, b int) int {
	return g("a, b", a,
		b)
}
`
	sources := map[string]string{
		"a.go": source, "b.go": "package a\n\nvar more = 7\n",
		// These are not built:
		"a_test.go": strings.ReplaceAll(source, "small", "least"), "c_plan9.go": source,
	}
	for name, text := range sources {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	for _, c := range []struct {
		decl, find, replace string
		file, was, is       string // is takes the place of was in the file
	}{
		{"f", "a, b)", "b, a)", "a.go", "a,\n\t\tb)", "b, a)"},
		{"f", "return g( `a, b`,a,b )", "", "", "", "found 0 times"},
		{"f", "return g( \"a, b\",a,b )", "", "a.go", "return g(\"a, b\", a,\n\t\tb)", ""},
		{"T.add", "n > 7 && t.a\n> 7", "n > 8", "a.go", "n > 7 && // more than 7\n\t\tt.a > 7", "n > 8"},
		{"T.add", "return …(….a, n)", "return 1 - …(….b, n)", "a.go", "return f(t.a, n)", "return 1 - f(t.b, n)"},
		{"T.add", "return …(…, n)", "", "", "", "found 0 times, want once: return …(…, n)"},
		{"T.add", "return", "", "", "", "found 2 times, want once: return"},
		{"large", "7", "9", "a.go", "large = 7", "large = 9"},
		{"y", "= 7", "= 9", "a.go", "y = 7", "y = 9"},
		{"more", "7", "9", "b.go", "7", "9"},
		{"T", "b int", "b int64", "a.go", "b int }", "b int64 }"},
		{"small", "7", "9", "", "", "found 0 times"},
		{"add", "n", "m", "", "", ". declares no add"},
		{"least", "7", "9", "", "", ". declares no least"},
	} {
		m := Mutation{Package: ".", Decl: c.decl, Find: c.find, Replace: c.replace}
		file, mutated, err := m.apply(root)
		if c.file == "" {
			require.ErrorContains(t, err, c.is, c)
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, filepath.Join(root, c.file), file, c)
		require.Equal(t, strings.Replace(sources[c.file], c.was, c.is, 1), string(mutated), c)
	}
	_, _, err := (&Mutation{Package: "none"}).apply(root)
	require.ErrorContains(t, err, "cannot find package")
}

// -check tells of each edit that the sources have no place for.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n\nvar x = 7\n", "a_test.go": "package a\n\nfunc TestX(t *testing.T) {}\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	fits := Mutation{Breaks: "fits", Package: ".", Decl: "x", Find: "7", Killed: "TestX/sub", TestPackage: "."}
	require.NoError(t, check(root, []Mutation{fits}))
	gone, untested := fits, fits
	gone.Find, untested.Killed = "8", "TestY"
	require.EqualError(t, check(root, []Mutation{gone, fits, untested}),
		". x: fits: found 0 times, want once: 8\n. x: fits: there is no TestY in .")
}
