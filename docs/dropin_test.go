package docs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/script/native"
)

// The marks around the table of commands.
const (
	dropInPage    = "drop-in.md"
	commandsBegin = "<!-- commands: written by go test ./docs -run DropIn -update -->\n"
	commandsEnd   = "<!-- end of commands -->\n"
)

// dropInGroups are the groups of COMMAND DOCS in the order of the page, as it
// calls them.
var dropInGroups = []struct{ group, name string }{
	{"string", "strings and counters"}, {"generic", "keys"}, {"hash", "hashes"}, {"set", "sets"}, {"sorted-set", "sorted sets"},
	{"list", "lists"}, {"transactions", "transactions"}, {"scripting", "scripts"}, {"connection", "connection"},
	{"pubsub", "publish and subscribe"}, {"server", "server"}, {"cluster", "cluster"}, {"sentinel", "Sentinel"},
}

// TestDropInCommands compares the commands that drop-in.md lists with those of
// Redis that the server has.
func TestDropInCommands(t *testing.T) {
	docs, err := respclient.Do("127.0.0.1:"+start(t), 10*time.Second, "COMMAND", "DOCS")
	require.NoError(t, err)
	byGroup := map[string][]string{}
	for i := 0; i+1 < len(docs.Elems); i += 2 {
		name := strings.ToUpper(docs.Elems[i].Str)
		ours, refused := []string{"THROTTLE", "GCRA", "INCREX"}, []string{"SWAPDB", "WAITAOF"}
		if strings.Contains(name, ".") || slices.Contains(ours, name) || slices.Contains(refused, name) {
			continue
		}
		group := ""
		for j, about := 0, docs.Elems[i+1].Elems; j+1 < len(about); j += 2 {
			if about[j].Str == "group" {
				group = about[j+1].Str
			}
		}
		byGroup[group] = append(byGroup[group], name)
	}
	var table strings.Builder
	table.WriteString("| | commands |\n|---|---|\n")
	for _, g := range dropInGroups {
		names := byGroup[g.group]
		delete(byGroup, g.group)
		if slices.Sort(names); len(names) > 0 {
			fmt.Fprintf(&table, "| %s | `%s` |\n", g.name, strings.Join(names, "` `"))
		}
	}
	require.Empty(t, byGroup, "groups that the page has no row for")

	checkTable(t, commandsBegin, commandsEnd, table.String())
}

// checkTable compares what the page has between two marks with a table, or
// writes it there.
func checkTable(t *testing.T, begin, end, table string) {
	t.Helper()
	text, err := os.ReadFile(dropInPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	require.True(t, ok && ok2, "marks")
	want := before + begin + "\n" + table + "\n" + end + after
	if *update {
		require.NoError(t, os.WriteFile(dropInPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./docs -run DropIn -update writes the table")
}

// The marks around the table of known scripts.
const (
	scriptsBegin = "<!-- scripts: written by go test ./docs -run DropIn -update -->\n"
	scriptsEnd   = "<!-- end of scripts -->\n"
)

// TestDropInScripts compares the known scripts that drop-in.md lists with those
// that there are.
func TestDropInScripts(t *testing.T) {
	var names []string
	byName := map[string][]string{}
	instead := map[string]string{}
	for _, s := range native.All() {
		if _, known := byName[s.Library]; !known {
			names = append(names, s.Library)
		}
		shas := byName[s.Library]
		for _, sha := range s.SHAs {
			shas = append(shas, "`"+sha[:8]+"`")
		}
		byName[s.Library], instead[s.Library] = shas, s.Instead
	}
	var table strings.Builder
	table.WriteString("| script | SHA1 begins with | Headgate's own call |\n|---|---|---|\n")
	for _, name := range names {
		call := instead[name]
		if call != "" {
			call = "`" + call + "`"
		}
		shas := strings.Join(byName[name], " ")
		if shas == "" {
			shas = "any"
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", name, shas, call)
	}
	checkTable(t, scriptsBegin, scriptsEnd, table.String())
}
