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
		if ours := []string{"THROTTLE", "GCRA", "INCREX"}; strings.Contains(name, ".") || slices.Contains(ours, name) {
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

	text, err := os.ReadFile(dropInPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), commandsBegin)
	_, after, ok2 := strings.Cut(rest, commandsEnd)
	require.True(t, ok && ok2, "marks")
	want := before + commandsBegin + "\n" + table.String() + "\n" + commandsEnd + after
	if *update {
		require.NoError(t, os.WriteFile(dropInPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./docs -run DropIn -update writes the table")
}
