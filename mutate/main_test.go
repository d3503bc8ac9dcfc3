package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// Every edit fits the sources as they are: its text is there once, and its test
// exists.
func TestListsFollowTheSources(t *testing.T) {
	all, err := load(lists)
	require.NoError(t, err)
	root, err := moduleRoot()
	require.NoError(t, err)
	require.NoError(t, check(root, all))
}

func TestLoad(t *testing.T) {
	f := func(text string) ([]Mutation, error) {
		return load(fstest.MapFS{"lists/a.yaml": {Data: []byte(text)}})
	}
	whole := "- breaks: it adds\n  file: x/a.go\n  find: a + b\n  replace: a - b\n  killed by: TestA\n"
	got, err := f(whole + strings.Replace(whole, "it adds", "other", 1) + "  in: y\n  timeout: 3s\n")
	require.NoError(t, err)
	require.Equal(t, []Mutation{
		{Breaks: "it adds", File: "x/a.go", Find: "a + b", Replace: "a - b", Killed: "TestA", Package: "x"},
		{Breaks: "other", File: "x/a.go", Find: "a + b", Replace: "a - b", Killed: "TestA", Package: "y", Timeout: 3 * time.Second},
	}, got)
	for text, want := range map[string]string{
		whole + whole:                                      "in the lists twice",
		whole + "  kiled by: TestB\n":                      "field kiled by not found",
		strings.Replace(whole, "TestA", `""`, 1):           "is missing",
		strings.Replace(whole, "a - b", "a + b", 1):        "is missing",
		strings.Replace(whole, "it adds", "it adds: x", 1): "mapping values are not allowed",
	} {
		_, err := f(text)
		require.ErrorContains(t, err, want)
	}
	_, err = load(fstest.MapFS{"lists/a.yaml": {Mode: fs.ModeDir}})
	require.Error(t, err)
}

func TestChooseKeepsTheOrder(t *testing.T) {
	all := make([]Mutation, 50)
	for i := range all {
		all[i].Breaks = strings.Repeat("x", i)
	}
	a, b, c := choose(all, 10, 1), choose(all, 10, 1), choose(all, 10, 2)
	require.Equal(t, a, b)
	require.NotEqual(t, a, c)
	for i := range a[1:] {
		require.Less(t, len(a[i].Breaks), len(a[i+1].Breaks))
	}
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
		"a failure":         {Mutation{Find: add, Replace: "return a*b + 7", Killed: "TestAdd"}, ""},
		"a panic":           {Mutation{Find: add, Replace: "return a - b", Killed: "TestTwo/sub"}, ""},
		"a hang":            {Mutation{Find: "n--", Replace: "n += 2", Killed: "TestHalf", Timeout: time.Second}, ""},
		"a program":         {Mutation{Find: add, Replace: "return a*b + 7", Killed: "TestProgram"}, ""},
		"a broken program":  {Mutation{File: "p/p.go", Package: "a", Find: "print(", Replace: "prin(", Killed: "TestProgram"}, "a program of the test does not compile"},
		"a survivor":        {Mutation{Find: add, Replace: "return a - b", Killed: "TestAdd"}, "SURVIVED"},
		"no compilation":    {Mutation{Find: add, Replace: "return c", Killed: "TestAdd"}, "does not compile"},
		"no test fails":     {Mutation{Find: add, Replace: "if a == b {\n\t\treturn 3\n\t}\n\treturn a + b", Killed: "TestAdd"}, "the binary fails, and no test"},
		"no test":           {Mutation{Find: add, Replace: "return a - b", Killed: "TestMissing"}, "there is no test TestMissing"},
		"fails without":     {Mutation{Find: add, Replace: "return a - b", Killed: "TestFails"}, "without the edit: the test fails"},
		"no longer there":   {Mutation{Find: "a + c", Killed: "TestAdd"}, "found 0 times"},
		"not the only one":  {Mutation{Find: "return", Killed: "TestAdd"}, "found 2 times"},
		"no such file":      {Mutation{File: "a/b.go", Find: "x", Killed: "TestAdd"}, "no such file"},
		"no such directory": {Mutation{Package: "b", Find: add, Killed: "TestAdd"}, "does not compile"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.m.File == "" {
				c.m.File = "a/a.go"
			}
			if c.m.Package == "" {
				c.m.Package = "a"
			}
			err := newRunner(root, t.TempDir()).run(context.Background(), &c.m)
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
