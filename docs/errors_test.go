package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// errorsPages are errors.md, which explains the first words of replies, and those with the
// other texts.
var errorsPages = []string{"errors.md", "errors-calls.md", "errors-start.md"}

// replyCode is the first word of an error reply. errors.md explains each in its first table.
var replyCode = regexp.MustCompile(`^([A-Z]{2,}) \S`)

// notReplies are the first words of texts in capitals that are no codes of errors.
var notReplies = []string{"ACL", "ATMOST", "BYFLOAT", "CLOSING", "COST", "DB", "ENX", "EX", "GET", "INCR", "INCRBY", "INCREX", "JSON", "LBOUND", "NOW", "POST", "RESP", "SET"}

// hiddenErrors are errors of the engine that no client and no operator sees.
var hiddenErrors = []string{
	"no limit decides by this kind of state",
	"not decided without a leader",
	"records have changed meanwhile",
	"score is not a number",
	"the call has been made before",
	"the key is not among those of this step",
	"the policy has changed meanwhile",
	"this node does not decide now",
	"another snapshot was restored meanwhile",
	"write snapshot: %w",
	"read snapshot: %w",
	"%w: key %.64q of database %d differs from the base of a delta",
	"read snapshot: %w: chunk of %d bytes",
}

// errorsOf are the directories and files whose errors are all on the pages: those of limits
// and the engine, of the configuration and its files, and of nodes that meet.
var errorsOf = []string{
	"../engine", "../engine/algo", "../cmd/headgate/config", "../cmd/headgate/secret", "../cmd/headgate/certs",
	"../raftlog/errors.go", "../raftlog/disk/errors.go", "../raftlog/member", "../raftlog/peer/handshake.go",
	"../cluster/clock.go", "../cluster/replace.go",
}

// TestErrors demands that the pages have every error reply of the server, and every error of
// errorsOf.
func TestErrors(t *testing.T) {
	var texts []string
	for _, page := range errorsPages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	page := strings.Join(texts, "\n")
	var missing []string
	has := func(at token.Position, message string) {
		for _, part := range fixed(message) {
			if !strings.Contains(page, part) {
				missing = append(missing, at.String()+": "+message)
				return
			}
		}
	}
	for _, root := range []string{"../server", "../engine", "../script", "../shard", "../cluster"} {
		eachLiteral(t, root, func(at token.Position, text string, _ bool) {
			if m := replyCode.FindStringSubmatch(text); m != nil && !slices.Contains(notReplies, m[1]) && strings.ToUpper(text) != text {
				has(at, text)
				if !strings.Contains(texts[0], "| `"+m[1]+"` |") {
					missing = append(missing, at.String()+": the code "+m[1])
				}
			}
		})
	}
	for _, at := range errorsOf {
		eachLiteral(t, at, func(pos token.Position, text string, isError bool) {
			file := filepath.ToSlash(pos.Filename)
			if isError && (file == at || path.Dir(file) == at) && !slices.Contains(hiddenErrors, text) {
				has(pos, text)
			}
		})
	}
	require.Empty(t, slices.Compact(slices.Sorted(slices.Values(missing))), "%v do not explain these errors", errorsPages)
}

var verb = regexp.MustCompile(`%[-+#.0-9]*(?:\[\d\])?[a-zA-Z]`)

// fixed returns the parts of a message that are the same in each error.
func fixed(message string) (parts []string) {
	for _, part := range verb.Split(message, -1) {
		if part = strings.TrimSpace(part); len(part) > 3 {
			parts = append(parts, part)
		}
	}
	return parts
}

// eachLiteral calls f for each text in the Go files below a directory. isError reports
// whether the text is the first argument of a function that makes or reports errors.
func eachLiteral(t *testing.T, root string, f func(at token.Position, text string, isError bool)) {
	t.Helper()
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		errors := map[*ast.BasicLit]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called := ""
				switch fun := n.Fun.(type) {
				case *ast.Ident:
					called = fun.Name
				case *ast.SelectorExpr:
					called = fun.Sel.Name
				}
				if len(n.Args) > 0 && slices.Contains([]string{"New", "Errorf", "report"}, called) {
					if text, ok := n.Args[0].(*ast.BasicLit); ok {
						errors[text] = true
					}
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					f(files.Position(n.Pos()), text, errors[n])
				}
			}
			return true
		})
		return nil
	}))
}
