package script

import (
	"errors"
	"fmt"
	"strings"
)

// Flags are what a script declares in its first line, such as "#!lua
// flags=no-writes,allow-oom".
type Flags uint8

// The flags of Redis 7. Declared is set for every script whose first line declares flags.
// Without such a line, each command of the script is checked separately.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys
	Declared
)

var flagNames = map[string]Flags{
	"no-writes": NoWrites, "allow-oom": AllowOOM, "allow-stale": AllowStale,
	"no-cluster": NoCluster, "allow-cross-slot-keys": AllowCrossSlotKeys,
}

// shebang reads the first line of a script, if that line declares flags. It returns the
// rest to compile, with the first line's line break, so that lines keep their numbers.
// Errors have Redis's text.
func shebang(body string) (Flags, string, error) {
	if !strings.HasPrefix(body, "#!") {
		return 0, body, nil
	}
	end := strings.IndexByte(body, '\n')
	if end < 0 {
		return 0, "", errors.New("Invalid script shebang") //lint:ignore ST1005 Redis's words
	}
	words := strings.Fields(body[:end])
	if words[0] != "#!lua" {
		return 0, "", fmt.Errorf("Unexpected engine in script shebang: %s", words[0]) //lint:ignore ST1005 Redis's words
	}
	flags := Declared
	for _, w := range words[1:] {
		list, ok := strings.CutPrefix(w, "flags=")
		if !ok {
			return 0, "", fmt.Errorf("Unknown lua shebang option: %s", w) //lint:ignore ST1005 Redis's words
		}
		if list == "" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			f, ok := flagNames[name]
			if !ok {
				return 0, "", fmt.Errorf("Unexpected flag in script shebang: %s", name) //lint:ignore ST1005 Redis's words
			}
			flags |= f
		}
	}
	return flags, body[end:], nil
}
