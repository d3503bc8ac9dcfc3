package load

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/headgate-io/headgate/faults/history"
)

// scriptFiles are limiters and a pair in Lua, all with the same arguments. These are the limit, the period in
// milliseconds, the cost, a text that no other call has, and the turns of a loop that does nothing.
//
//go:embed scripts/*.lua
var scriptFiles embed.FS

// scripted begins the names of the scripts in history.Key.
const scripted = "EVALSHA "

// turns is more than a script may do on a server's loop: it takes a few milliseconds.
const turns = 300_000

// script is a text and its name in EVALSHA.
type script struct{ text, sha string }

// scripts are those of scriptFiles, by name.
var scripts = readScripts()

func readScripts() map[string]script {
	files, err := scriptFiles.ReadDir("scripts")
	if err != nil {
		panic(err) // they are part of the program
	}
	read := make(map[string]script)
	for _, f := range files {
		text, err := scriptFiles.ReadFile("scripts/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha1.Sum(text)
		read[strings.TrimSuffix(f.Name(), ".lua")] = script{string(text), hex.EncodeToString(sum[:])}
	}
	return read
}

// Scripts returns the texts that SCRIPT LOAD has to be told before calls of scripts are sent.
func Scripts() []string {
	var texts []string
	for _, s := range scripts {
		texts = append(texts, s.text)
	}
	return texts
}

func isScript(key history.Key) bool { return strings.HasPrefix(key.Command, scripted) }

// scriptArguments is the command of a call of a script; a Pair has other as its second key.
func scriptArguments(c *history.Call, key, other history.Key) []string {
	args := []string{"EVALSHA", scripts[strings.TrimPrefix(key.Command, scripted)].sha, "1", key.Name}
	if c.Kind == history.Pair {
		args[2] = "2"
		args = append(args, other.Name)
	}
	spin := int32(0)
	if c.Slow {
		spin = turns
	}
	period := strings.TrimSuffix(millis(key.Period), "ms")
	return append(args, number(c.Limit), period, number(c.Cost), id(c), number(spin))
}
