// Package shape has a test of how the packages of the server are cut.
package shape

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/headgate-io/headgate/"

// The bounds of a package. In a knot, each file uses, directly or through others, a
// declaration of each other file: no reading order exists.
const (
	mostKnot    = 25 // files
	mostFields  = 40 // of a struct
	mostMethods = 60 // of a type
)

// larger are the packages and types that are larger, and how large they may be. A
// number here may fall; to raise one, give a reason.
var larger = map[string]int{
	// The kernels. Every command may need server's connection, lane, route and
	// parking on its way. A flight orders the replies of several leaders with those of
	// this node, and WAIT looks at what a batch and a flight have run: both are of the
	// connection. All operations of a Session share its lock, plan and step; leases of
	// policies are between checks, marks and leases, and so are cancelled charges.
	"server": 38, "server.conn": 138, "server.Server": 105,
	"engine": 37, "engine.Session": 134,
	// A check in one group and its second step in another are one decision. NOHOLD explains
	// names without a slot.
	"server/checks.Checker": 64,
	// One lock, one idea: what can be done with the entries of a shard.
	"shard.Shard": 84,
	// The questions to a node's Raft, and its answers.
	"raftlog.Group": 83, "raftlog.Status": 42,
	// An interpreter: a method an instruction, and what it needs of a thread.
	"script/lua": 44, "script/lua.Thread": 124,
	// A run of a script or transaction: its input, how it runs, and its result.
	"server/scripts.run": 42,
	// A method a rule of the grammar; a field a parameter; all of a collection's bytes.
	"policy/grammar.reader": 75, "cmd/headgate/config.Config": 94, "engine/packed.container": 61,
}

// TestShape fails when a package, a struct or a type has outgrown what a reader can
// keep in mind. Cut it where a seam is; if there is none, give the reason in larger.
func TestShape(t *testing.T) {
	used := map[string]bool{}
	check := func(is int, name string, most int, what string) {
		if is <= most {
			return
		}
		used[name] = true
		if may := larger[name]; is > may {
			t.Errorf("%s has %d %s, more than %d", name, is, what, max(most, may))
		}
	}
	for _, p := range load(t) {
		check(p.knot(), p.name, mostKnot, "files in one knot")
		scope := p.types.Scope()
		for _, name := range scope.Names() {
			named, ok := scope.Lookup(name).(*types.TypeName)
			if !ok {
				continue
			}
			if s, ok := named.Type().Underlying().(*types.Struct); ok {
				check(s.NumFields(), p.name+"."+name, mostFields, "fields")
			}
			if n, ok := named.Type().(*types.Named); ok {
				check(n.NumMethods(), p.name+"."+name, mostMethods, "methods")
			}
		}
	}
	for name := range larger {
		require.True(t, used[name], "%s is not larger than others any more", name)
	}
}

// TestWalksAreTrue fails when a walk of DESIGN.md names a file that is not there any more.
func TestWalksAreTrue(t *testing.T) {
	text, err := os.ReadFile("../../DESIGN.md")
	require.NoError(t, err)
	files := regexp.MustCompile(`\b[a-z]+(/[a-z_]+)+\.go\b`).FindAllString(string(text), -1)
	require.Greater(t, len(files), 40)
	for _, f := range files {
		require.FileExists(t, "../../"+f)
	}
}

// TestTheMapIsWhole fails when a room of the product is not on the map of DESIGN.md.
// Rooms within a room that the map names, and helpers, need not be.
func TestTheMapIsWhole(t *testing.T) {
	text, err := os.ReadFile("../../DESIGN.md")
	require.NoError(t, err)
	onMap := func(name string) bool {
		return strings.Contains(string(text), "]("+name+")") || strings.Contains(string(text), "]("+name+"/")
	}
	for _, p := range load(t) {
		if strings.HasPrefix(p.name, "internal/") || onMap(p.name) {
			continue
		}
		within := filepath.Dir(p.name)
		if within == "." || !strings.HasPrefix(within, "server/") {
			t.Errorf("%s is not on the map", p.name)
		} else if !onMap(within) {
			t.Errorf("neither %s nor %s is on the map", p.name, within)
		}
	}
}

// pkg is one package of the product, type-checked.
type pkg struct {
	name  string
	files []string
	types *types.Package
	info  types.Info
	fset  *token.FileSet
}

// load type-checks the packages of the server, without tests and harness.
func load(t *testing.T) (all []*pkg) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", "./cmd/headgate")
	list.Dir, list.Stderr = "../..", os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := d.Decode(&l); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		exports[l.ImportPath] = l.Export
		name, ours := strings.CutPrefix(l.ImportPath, module)
		if !ours {
			continue
		}
		p := &pkg{name: name, files: l.GoFiles, fset: token.NewFileSet(), info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
		var parsed []*ast.File
		for _, f := range l.GoFiles {
			file, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, f), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, file)
		}
		open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
		conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", open)}
		p.types, err = conf.Check(l.ImportPath, p.fset, parsed, &p.info)
		require.NoError(t, err)
		all = append(all, p)
	}
	require.Greater(t, len(all), 40)
	return all
}

// knot returns the size of the largest knot: a strongly connected part of the graph in
// which a file points to the files whose declarations it uses.
func (p *pkg) knot() (largest int) {
	uses := map[string]map[string]bool{}
	for id, o := range p.info.Uses {
		from, to := p.file(id.Pos()), p.file(o.Pos())
		if o.Pkg() != p.types || from == to || !p.declared(o) {
			continue
		}
		if uses[from] == nil {
			uses[from] = map[string]bool{}
		}
		uses[from][to] = true
	}
	reach := map[string]map[string]bool{}
	for _, f := range p.files {
		seen := map[string]bool{}
		for todo := []string{f}; len(todo) > 0; {
			next := todo[0]
			todo = todo[1:]
			for to := range maps.Keys(uses[next]) {
				if !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		reach[f] = seen
	}
	for _, f := range p.files {
		knot := slices.DeleteFunc(slices.Collect(maps.Keys(reach[f])), func(o string) bool { return !reach[o][f] })
		largest = max(largest, len(knot))
	}
	return largest
}

// declared reports whether an object is one of the package, or a method of one.
func (p *pkg) declared(o types.Object) bool {
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return o.Parent() == p.types.Scope()
}

func (p *pkg) file(at token.Pos) string { return filepath.Base(p.fset.Position(at).Filename) }
